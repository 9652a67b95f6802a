from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import CLEAN, SAFE

MENDED = "def f():\n    return settled\n"
UNSAFE = 'x = ambient("error", "unsafe")\n'


def test_safe_fixes_are_written_and_a_second_run_changes_nothing(run, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(SAFE)
    first = run("rewrite", "a.py")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("Fixed 1 warning in 1 file")
    assert file.read_text() == MENDED
    before = file.stat()
    assert run("rewrite", "a.py").returncode == 0
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_remains_fails_the_run_and_is_listed(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE + UNSAFE + 'y = ambient("warning", "manual")\n')
    done = run("rewrite", "a.py")
    assert done.returncode == 1
    assert "a.py:3:5: error demo-call" in done.stdout
    assert "a.py:4:5: warning demo-call" in done.stdout
    assert "--unsafe-fixes" in done.stdout
    assert (tmp_path / "a.py").read_text() == MENDED + UNSAFE + 'y = ambient("warning", "manual")\n'


def test_unsafe_fixes_are_applied_on_request(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(UNSAFE)
    assert run("rewrite", "a.py", "--unsafe-fixes").returncode == 0
    assert (tmp_path / "a.py").read_text() == "x = settled\n"


def test_a_note_is_left_alone_and_fails_nothing(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('x = ambient("note", "safe")\n')
    assert run("rewrite", "a.py", "--unsafe-fixes").returncode == 0
    assert (tmp_path / "a.py").read_text() == 'x = ambient("note", "safe")\n'


@pytest.mark.parametrize("option", ["--check", "--diff"])
def test_a_preview_writes_nothing_and_exits_with_1_if_a_file_would_change(
    run, tmp_path: Path, option: str
) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    (tmp_path / "b.py").write_text('y = ambient("warning", "manual")\n')
    assert run("rewrite", option, "a.py", "b.py").returncode == 1
    assert run("rewrite", option, "b.py").returncode == 0
    assert (tmp_path / "a.py").read_text() == SAFE


def test_check_says_what_would_change(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    assert run("rewrite", "--check", "a.py").stdout.startswith("Would fix 1 warning in 1 file")


def test_exit_non_zero_on_fix_makes_a_change_a_failure(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    assert run("rewrite", "--exit-non-zero-on-fix", "a.py").returncode == 1
    assert run("rewrite", "--exit-non-zero-on-fix", "a.py").returncode == 0


AWKWARD = {
    "crlf.py": SAFE.replace("\n", "\r\n").encode(),
    "bom.py": b"\xef\xbb\xbf" + SAFE.encode(),
    "no_newline.py": SAFE.encode().rstrip(b"\n"),
    "form_feed.py": b"a = 1\n\x0c\n" + SAFE.encode(),
    "latin.py": "# coding: latin-1\nname = 'café'\n".encode("latin-1") + SAFE.encode(),
    "with space.py": SAFE.encode(),
    "übung.py": SAFE.encode(),
    'quo"te.py': SAFE.encode(),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_git_apply_takes_the_diff_and_it_equals_the_rewrite(run, tmp_path: Path, name: str) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    file = tmp_path / name
    file.write_bytes(AWKWARD[name])
    done = run("rewrite", "--diff", name, text=False)
    assert done.returncode == 1
    subprocess.run(["git", "apply", "-"], input=done.stdout, cwd=tmp_path, check=True)
    applied = file.read_bytes()
    assert applied == AWKWARD[name].replace(b'ambient("warning", "safe")', b"settled")
    file.write_bytes(AWKWARD[name])
    assert run("rewrite", name).returncode == 0
    assert file.read_bytes() == applied


def test_the_diff_of_a_folder_applies_at_the_top_of_the_checkout(run, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.py").write_text(SAFE)
    done = run("rewrite", "--diff", ".", cwd=tmp_path / "sub")
    assert "--- a/sub/a.py\n+++ b/sub/a.py\n" in done.stdout
    subprocess.run(["git", "apply", "-"], input=done.stdout, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "sub/a.py").read_text() == MENDED


def test_mode_and_links_survive(run, tmp_path: Path) -> None:
    file = tmp_path / "real.py"
    file.write_text(SAFE)
    file.chmod(0o754)
    (tmp_path / "link.py").symlink_to("real.py")
    assert run("rewrite", "link.py").returncode == 0
    assert (tmp_path / "link.py").is_symlink()
    assert file.read_text() == MENDED
    assert stat.S_IMODE(file.stat().st_mode) == 0o754
    assert sorted(os.listdir(tmp_path)) == ["link.py", "real.py"]


def test_a_file_that_may_not_be_written_is_left_and_said(run, tmp_path: Path, bound_by_permissions) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    (tmp_path / "a.py").chmod(0o444)
    (tmp_path / "b.py").write_text(SAFE)
    done = run("rewrite", "a.py", "b.py", **bound_by_permissions)
    assert done.returncode == 2
    assert done.stderr == "dtypefix: a.py: cannot be written: Permission denied\n"
    assert (tmp_path / "a.py").read_text() == SAFE
    assert (tmp_path / "b.py").read_text() == MENDED
    assert sorted(os.listdir(tmp_path)) == ["a.py", "b.py"]


def test_what_could_not_be_written_is_reported_as_it_lies_on_disk(
    run, tmp_path: Path, bound_by_permissions
) -> None:
    long = 'def f():\n    a = ambient("warning", "safe")\n    return a, ambient("error", "manual")\n'
    stale = "x = 1  # dtypefix: ignore[demo-call] stale\n"
    (tmp_path / "a.py").write_text(f"# dtypefix: ignore[demo-call] stale\n{stale}{long}")
    (tmp_path / "a.py").chmod(0o444)
    done = run("rewrite", "a.py", "--format", "json", **bound_by_permissions)
    document = json.loads(done.stdout)
    assert done.returncode == 2
    assert [finding["line"] for finding in document["findings"]] == [1, 2, 4, 5]
    assert document["summary"]["fixed"] == 0


def test_the_count_closes(run, tmp_path: Path) -> None:
    suppressed = 'z = ambient("error", "safe")  # dtypefix: ignore[demo-call] known\n'
    (tmp_path / "a.py").write_text(SAFE + UNSAFE + suppressed + 'n = ambient("note", "safe")\n')
    done = run("rewrite", "a.py", "--format", "json")
    assert done.returncode == 1
    summary = json.loads(done.stdout)["summary"]
    assert summary == {
        "found": 4, "fixed": 1, "unfixed": 2, "suppressed": 1, "baselined": 0, "by_rule": {"demo-call": 4},
    }  # fmt: skip


def test_standard_input_comes_back_repaired(run) -> None:
    done = run("rewrite", "--stdin-filename", "a.py", "-", input=SAFE)
    assert (done.returncode, done.stdout) == (0, MENDED)
    done = run("rewrite", "--stdin-filename", "a.py", "-", input=CLEAN)
    assert (done.returncode, done.stdout) == (0, CLEAN)


@pytest.fixture
def cached_release(tmp_path: Path) -> dict[str, str]:
    """The environment in which a release ``vllm==0.0.7`` lies in the cache."""
    package = tmp_path / "cache/vllm-0.0.7/vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text(SAFE)
    (package.parent / "pyproject.toml").write_text("")
    (package.parent / "setup.py").write_text(SAFE)
    return {"DTYPEFIX_SOURCES": str(tmp_path / "cache")}


def test_a_release_is_read_only_and_its_paths_are_its_own(run, tmp_path: Path, cached_release) -> None:
    scanned = run("scan", "vllm==0.0.7", env=cached_release)
    assert scanned.stdout.startswith("vllm/a.py:2:12: ")
    assert "Found 1 warning in 1 file of 2 examined" in scanned.stdout
    refused = run("rewrite", "vllm==0.0.7", env=cached_release)
    assert refused.returncode == 2
    assert "--output DIR" in refused.stderr
    shown = run("rewrite", "--diff", "vllm==0.0.7", env=cached_release)
    assert shown.returncode == 1
    assert "+++ b/vllm/a.py" in shown.stdout
    assert (tmp_path / "cache/vllm-0.0.7/vllm/a.py").read_text() == SAFE


def test_output_holds_a_repaired_copy_of_the_release(run, tmp_path: Path, cached_release) -> None:
    done = run("rewrite", "vllm==0.0.7", "--output", "out", env=cached_release)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out/vllm/a.py").read_text() == MENDED
    assert (tmp_path / "out/pyproject.toml").exists()
    assert (tmp_path / "cache/vllm-0.0.7/vllm/a.py").read_text() == SAFE
    assert sorted(os.listdir(tmp_path)) == ["cache", "out"]
    again = run("rewrite", "vllm==0.0.7", "--output", "out", env=cached_release)
    assert again.returncode == 2
    assert "not an empty folder" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a.py", "--output", "out"], "--output makes a repaired copy of a release"),
        (["a.py", "--diff", "--check"], "choose one"),
        (["a.py", "--diff", "--format", "json"], "leave --format out"),
        (["vllm==0.0.7:nowhere", "--diff"], "the release has no nowhere"),
        (["vllm==0.0.7:../../a.py", "--diff"], "leads out of the release"),
    ],
)
def test_a_bad_request_changes_nothing(
    run, tmp_path: Path, cached_release, arguments: list[str], says: str
) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    done = run("rewrite", *arguments, env=cached_release)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (tmp_path / "a.py").read_text() == SAFE
    assert not (tmp_path / "out").exists()


def test_an_installed_vllm_is_found_without_importing_it(run, tmp_path: Path, environment) -> None:
    package = tmp_path / "packages/vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "a.py").write_text(SAFE)
    with_vllm = {"PYTHONPATH": os.pathsep.join([str(package.parent), environment["PYTHONPATH"]])}
    scanned = run("scan", "--installed", env=with_vllm)
    assert scanned.stdout.startswith("vllm/a.py:2:12: ")
    assert run("rewrite", "--installed", env=with_vllm).returncode == 2
    assert run("rewrite", "--installed", "--diff", env=with_vllm).returncode == 1
    assert (package / "a.py").read_text() == SAFE
