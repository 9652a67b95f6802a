from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import SAFE

UNSAFE = 'x = ambient("error", "unsafe")\n'
MANUAL = 'y = ambient("warning", "manual")\n'
REASON = ("--add-ignores", "--reason", "checked by hand, see #42")


def test_a_patch_is_written_and_git_applies_it(run, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.py").write_bytes(SAFE.replace("\n", "\r\n").encode())
    (tmp_path / "sub/b.py").write_text(SAFE)
    done = run("rewrite", ".", "--patch", "fix.patch", cwd=tmp_path / "sub")
    assert done.returncode == 1
    assert done.stdout.startswith("Would fix 2 warnings in 2 files")
    assert (tmp_path / "sub/b.py").read_text() == SAFE
    subprocess.run(["git", "apply", "sub/fix.patch"], cwd=tmp_path, check=True)
    assert run("rewrite", ".", "--patch", "fix.patch", cwd=tmp_path / "sub").returncode == 0
    assert (tmp_path / "sub/fix.patch").read_bytes() == b""
    done = run("rewrite", ".", "--patch", "nowhere/fix.patch")
    assert done.returncode == 2
    assert "--patch nowhere/fix.patch: cannot be written" in done.stderr


def test_unsafe_fixes_that_are_held_back_are_named_with_what_to_do(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(UNSAFE)
    for command in ("scan", "rewrite"):
        said = run(command, "a.py").stdout
        adds = "`dtypefix rewrite --unsafe-fixes` adds 1 unsafe, likely right but not proved"
        assert adds in said
    assert "unsafe-fixes" not in run("rewrite", "a.py", "--unsafe-fixes").stdout


def test_exit_zero_hides_findings_from_the_exit_status_only(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    done = run("scan", "a.py", "--exit-zero")
    assert done.returncode == 0
    assert "a.py:2:12: warning" in done.stdout
    assert run("scan", "a.py", "missing.py", "--exit-zero").returncode == 2


def test_statistics_count_by_rule(run, tmp_path: Path) -> None:
    stale = "z = 1  # dtypefix: ignore[demo-call] stale\n"
    (tmp_path / "a.py").write_text(SAFE + UNSAFE + MANUAL + stale)
    (tmp_path / "b.py").write_text(SAFE + 'n = ambient("note", "manual")\n')
    done = run("scan", ".", "--statistics")
    assert done.returncode == 1
    assert [line.split(maxsplit=2) for line in done.stdout.splitlines()] == [
        ["4", "demo-call", "2 files (2 safe, 1 unsafe, 1 manual)"],
        ["1", "ignore-comment", "1 file (1 safe)"],
    ]
    rows = json.loads(run("scan", ".", "--statistics", "--format", "json").stdout)
    assert rows[0] == {"rule": "demo-call", "count": 5, "files": 2, "safe": 2, "unsafe": 1, "manual": 2}
    refused = run("scan", ".", "--statistics", "--format", "sarif")
    assert refused.returncode == 2
    assert "--statistics comes as text or json" in refused.stderr


LONG = "quite_a_long_name_for_a_variable_that_leaves_no_room_for_a_comment_behind_it"
PLACES = {
    "x = ambient('error', 'safe')\n": "x = ambient('error', 'safe')  # dtypefix: ignore[demo-call] why\n",
    "if x:\n    y = ambient('error', 'safe')  # noqa: E1\n":
        "if x:\n    y = ambient('error', 'safe')  # noqa: E1  # dtypefix: ignore[demo-call] why\n",
    f"if x:\n    {LONG} = ambient('error', 'safe')\n":
        f"if x:\n    # dtypefix: ignore[demo-call] why\n    {LONG} = ambient('error', 'safe')\n",
    "x = ambient('error',\n            'safe')\n":
        "x = ambient('error',  # dtypefix: ignore[demo-call] why\n            'safe')\n",
    "x = \\\n    ambient('error', 'safe')\n":
        "x = \\\n    ambient('error', 'safe')  # dtypefix: ignore[demo-call] why\n",
    "x = '''\n''' + ambient('error', 'safe') + '''\n'''\n": None,
    "x = ambient('error', 'safe') + \\\n    1\n":
        "# dtypefix: ignore[demo-call] why\nx = ambient('error', 'safe') + \\\n    1\n",
    "x = [ambient('error', 'safe'), ambient('warning', 'manual')]":
        "x = [ambient('error', 'safe'), ambient('warning', 'manual')]  # dtypefix: ignore[demo-call] why",
    "x = ambient('error', 'safe')  # dtypefix: ignore[other-rule] because\n":
        "x = ambient('error', 'safe')  # dtypefix: ignore[other-rule] because  "
        "# dtypefix: ignore[demo-call] why\n",
}  # fmt: skip


@pytest.mark.parametrize("before", PLACES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_ignore_comments_are_added_where_they_count(run, tmp_path: Path, before: str, newline: str) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 110\n")
    file = tmp_path / "a.py"
    file.write_bytes(before.replace("\n", newline).encode())
    done = run("rewrite", "a.py", "--add-ignores", "--reason", "why", "--ignore", "ignore-comment")
    after = PLACES[before]
    assert file.read_bytes().decode() == (after or before).replace("\n", newline)
    assert done.returncode == (1 if after is None else 0), done.stdout
    if after is not None:
        assert run("scan", "a.py", "--ignore", "ignore-comment").returncode == 0
        again = run("rewrite", "a.py", "--add-ignores", "--reason", "why", "--ignore", "ignore-comment")
        assert again.returncode == 0
        assert file.read_bytes().decode() == after.replace("\n", newline)


def test_what_was_silenced_is_never_rewritten_and_its_count_closes(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE + UNSAFE)
    done = run("rewrite", "a.py", *REASON)
    assert done.returncode == 0
    assert "2 findings suppressed by comments" in done.stdout
    text = (tmp_path / "a.py").read_text()
    assert text.count("# dtypefix: ignore[demo-call] checked by hand, see #42\n") == 2
    again = run("rewrite", "a.py", "--unsafe-fixes", "--format", "json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["summary"]["suppressed"] == 2
    assert (tmp_path / "a.py").read_text() == text


def test_added_comments_can_be_looked_at_first(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    done = run("rewrite", "a.py", *REASON, "--diff")
    assert done.returncode == 1
    assert "+    # dtypefix: ignore[demo-call] checked by hand, see #42\n" in done.stdout
    assert (tmp_path / "a.py").read_text() == SAFE


def test_notes_and_known_findings_get_no_comment(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    assert run("baseline", "create", ".").returncode == 0
    (tmp_path / "a.py").write_text(SAFE + UNSAFE + 'n = ambient("note", "safe")\n')
    done = run("rewrite", "a.py", *REASON, "--baseline", "dtypefix-baseline.json")
    assert done.returncode == 0
    lines = (tmp_path / "a.py").read_text().splitlines()
    assert [index for index, line in enumerate(lines) if "dtypefix:" in line] == [2]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--add-ignores"], "--add-ignores and --reason go together"),
        (["--reason", "x"], "--add-ignores and --reason go together"),
        (["--add-ignores", "--reason", " "], "say why the findings may stay"),
        (["--add-ignores", "--reason", "a # b"], "a # begins another comment"),
        (["--interactive", *REASON], "--interactive goes with neither"),
        (["--patch", "p", "--diff"], "choose one of --diff, --patch, --check and --output"),
    ],
)
def test_a_bad_request_changes_nothing(run, tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    done = run("rewrite", "a.py", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (tmp_path / "a.py").read_text() == SAFE


def test_a_reason_that_the_files_encoding_lacks_leaves_the_file(run, tmp_path: Path) -> None:
    text = b"# coding: latin-1\n" + SAFE.encode()
    (tmp_path / "a.py").write_bytes(text)
    done = run("rewrite", "a.py", "--add-ignores", "--reason", "漢字")
    assert done.returncode == 2
    assert "cannot be written in iso-8859-1" in done.stderr
    assert (tmp_path / "a.py").read_bytes() == text


THREE = 'a = ambient("error", "safe")\nb = ambient("warning", "safe")\nc = ambient("error", "unsafe")\n'
ANSWERS = {
    "y\nn\n": ("a = settled\n", "b = ambient", "c = ambient"),
    "n\ny\n": ("a = ambient", "b = settled\n", "c = ambient"),
    "a\n": ("a = settled\n", "b = settled\n", "c = ambient"),
    "maybe\n\ny\nq\n": ("a = settled\n", "b = ambient", "c = ambient"),
    "s\n": ("a = ambient", "b = ambient", "c = ambient"),
    "": ("a = ambient", "b = ambient", "c = ambient"),
}


@pytest.mark.parametrize("answers", ANSWERS)
def test_each_fix_is_asked_about_and_what_was_accepted_is_written(run, tmp_path: Path, answers: str) -> None:
    (tmp_path / "a.py").write_text(THREE)
    done = run("rewrite", "a.py", "--interactive", input=answers)
    assert done.returncode == 1
    lines = (tmp_path / "a.py").read_text().splitlines(keepends=True)
    assert all(line.startswith(start) for line, start in zip(lines, ANSWERS[answers], strict=True))
    assert '- a = ambient("error", "safe")' in done.stderr
    assert "+ a = settled" in done.stderr


def test_skipping_a_file_goes_on_with_the_next_and_quitting_does_not(run, tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(THREE)
    run("rewrite", "a.py", "b.py", "c.py", "--interactive", input="s\ny\nq\n")
    assert (tmp_path / "a.py").read_text() == THREE
    assert (tmp_path / "b.py").read_text().startswith("a = settled\nb = ambient")
    assert (tmp_path / "c.py").read_text() == THREE


def test_unsafe_fixes_are_asked_about_when_they_are_allowed(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(UNSAFE)
    done = run("rewrite", "a.py", "--interactive", "--unsafe-fixes", input="y\n")
    assert done.returncode == 0
    assert "[unsafe fix] read settled" in done.stderr
    assert (tmp_path / "a.py").read_text() == "x = settled\n"
