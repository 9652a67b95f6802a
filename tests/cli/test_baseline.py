from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import SAFE

TWO = SAFE + 'y = ambient("error", "manual")\n'
NAME = "dtypefix-baseline.json"


@pytest.fixture
def known(run, tmp_path: Path) -> Path:
    """A baseline of the two findings of ``a.py``."""
    (tmp_path / "a.py").write_text(TWO)
    done = run("baseline", "create", ".")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Wrote 2 findings to {NAME}.\n")
    return tmp_path / NAME


def summary(done) -> dict[str, int]:
    found = json.loads(done.stdout)["summary"]
    assert found["found"] == found["fixed"] + found["unfixed"] + found["suppressed"] + found["baselined"]
    return found


def test_known_findings_are_counted_and_new_ones_reported(run, tmp_path: Path, known: Path) -> None:
    done = run("scan", ".", "--baseline", NAME)
    assert done.returncode == 0
    assert "2 findings known from the baseline" in done.stdout
    (tmp_path / "a.py").write_text("import os\n\n\n" + TWO + 'z = ambient("warning", "safe")\n')
    done = run("scan", ".", "--baseline", NAME, "--format", "json")
    assert done.returncode == 1
    assert [finding["line"] for finding in json.loads(done.stdout)["findings"]] == [7]
    counts = summary(done)
    assert (counts["found"], counts["unfixed"], counts["baselined"]) == (3, 1, 2)


def test_it_can_be_a_setting_and_be_turned_off(run, tmp_path: Path, known: Path) -> None:
    (tmp_path / "dtypefix.toml").write_text(f'baseline = "{NAME}"\n')
    assert run("scan", ".").returncode == 0
    assert run("scan", ".", "--no-baseline").returncode == 1
    assert run("scan", ".", "--isolated").returncode == 1


def test_it_holds_wherever_one_stands(run, tmp_path: Path, known: Path) -> None:
    (tmp_path / "dtypefix.toml").write_text(f'baseline = "{NAME}"\n')
    (tmp_path / "sub").mkdir()
    assert run("scan", "..", cwd=tmp_path / "sub").returncode == 0
    assert run("scan", str(tmp_path / "a.py"), cwd=tmp_path / "sub").returncode == 0


def test_an_equal_finding_more_is_new_and_one_less_is_stale(run, tmp_path: Path, known: Path) -> None:
    (tmp_path / "a.py").write_text(TWO + TWO.splitlines()[2] + "\n")
    done = run("baseline", "check", ".")
    assert done.returncode == 1
    assert "a.py:4:5: new error demo-call: " in done.stdout
    assert f"{NAME}: 2 known, 1 new, 0 stale." in done.stdout
    (tmp_path / "a.py").write_text(SAFE)
    done = run("baseline", "check", ".")
    assert done.returncode == 1
    assert 'a.py: stale demo-call: ambient("error", "manual")' in done.stdout
    scanned = run("scan", ".", "--baseline", NAME)
    assert scanned.returncode == 0
    assert scanned.stderr == f"dtypefix: {NAME}: 1 entry is stale; `dtypefix baseline update` drops them\n"


def test_update_only_shrinks_unless_told_to_grow(run, tmp_path: Path, known: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    (tmp_path / "b.py").write_text(SAFE)
    done = run("baseline", "update", ".")
    assert done.returncode == 1
    assert f"{NAME}: 1 dropped, 1 finding left." in done.stdout
    assert "b.py:2:12: new warning demo-call" in done.stdout
    assert "--grow" in done.stdout
    assert [entry["path"] for entry in json.loads(known.read_text())["findings"]] == ["a.py"]
    done = run("baseline", "update", ".", "--grow")
    assert done.returncode == 0
    assert [entry["path"] for entry in json.loads(known.read_text())["findings"]] == ["a.py", "b.py"]
    assert run("baseline", "check", ".").returncode == 0


def test_update_of_a_part_leaves_the_rest_and_drops_files_that_are_gone(run, tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(SAFE)
    assert run("baseline", "create", ".").returncode == 0
    (tmp_path / "a.py").write_text("")
    (tmp_path / "b.py").write_text("")
    (tmp_path / "c.py").unlink()
    assert run("baseline", "update", "a.py").returncode == 0
    assert [e["path"] for e in json.loads((tmp_path / NAME).read_text())["findings"]] == ["b.py"]


def test_a_rule_that_did_not_run_leaves_no_entry_stale(run, tmp_path: Path, known: Path) -> None:
    (tmp_path / "a.py").write_text("")
    assert run("baseline", "check", ".", "--select", "ignore-comment").returncode == 0


def test_notes_are_never_in_it(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('x = ambient("note", "safe")\n')
    assert run("baseline", "create", ".").stdout.startswith("Wrote 0 findings")
    done = run("scan", "a.py", "--baseline", NAME, "--format", "json")
    assert (summary(done)["unfixed"], summary(done)["baselined"]) == (1, 0)


def test_a_rewrite_repairs_known_findings_and_fails_only_for_new_ones(
    run, tmp_path: Path, known: Path
) -> None:
    done = run("rewrite", ".", "--baseline", NAME, "--format", "json")
    assert done.returncode == 0
    counts = summary(done)
    assert (counts["found"], counts["fixed"], counts["baselined"]) == (2, 1, 1)


def test_create_does_not_overwrite_and_writes_where_it_is_told(run, tmp_path: Path, known: Path) -> None:
    done = run("baseline", "create", ".")
    assert done.returncode == 2
    assert f"{NAME} exists" in done.stderr
    assert run("baseline", "create", ".", "--baseline", "other.json").returncode == 0
    assert json.loads((tmp_path / "other.json").read_text()) == json.loads(known.read_text())


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such file; `dtypefix baseline create` makes it"),
        ("{", "is no baseline"),
        ('{"schema": 9, "findings": []}', "schema 9"),
        ('{"schema": 1, "findings": [{"path": "a.py"}]}', "is no baseline"),
    ],
)
def test_a_baseline_that_cannot_be_read_is_one_line(
    run, tmp_path: Path, content: str | None, says: str
) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    if content is not None:
        (tmp_path / "known.json").write_text(content)
    done = run("scan", "a.py", "--baseline", "known.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


def test_a_release_has_no_baseline(run, tmp_path: Path) -> None:
    package = tmp_path / "cache/vllm-0.0.7/vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(SAFE)
    done = run("baseline", "create", "vllm==0.0.7", env={"DTYPEFIX_SOURCES": str(tmp_path / "cache")})
    assert done.returncode == 2
    assert "for your own files" in done.stderr


def test_what_cannot_be_read_is_said_and_nothing_becomes_stale_by_it(
    run, tmp_path: Path, known: Path
) -> None:
    (tmp_path / "a.py").write_text("def f(:\n    ambient(\n")
    done = run("baseline", "update", ".")
    assert done.returncode == 2
    assert done.stderr.startswith("dtypefix: a.py: syntax error")
    assert len(json.loads(known.read_text())["findings"]) == 2


def test_help_names_the_exit_codes(run) -> None:
    for command in ("create", "update", "check"):
        assert "Exit status:" in run("baseline", command, "--help").stdout
