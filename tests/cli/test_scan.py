from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CLEAN, SAFE


def findings(done: subprocess.CompletedProcess[str]) -> list[dict]:
    return json.loads(done.stdout)["findings"]


def test_a_finding_is_one_line_with_place_level_rule_and_message(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    done = run("scan", "a.py", "--isolated")
    assert done.returncode == 1
    first = done.stdout.splitlines()[0]
    assert first == "a.py:2:12: warning demo-call: the dtype comes from ambient [safe fix]"
    assert done.stderr == ""


def test_a_clean_file_exits_with_0(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CLEAN)
    done = run("scan", "a.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "No findings in 1 file.\n"


def test_notes_never_fail_a_run_and_are_listed_on_request(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('x = ambient("note", "manual")\n')
    done = run("scan", "a.py")
    assert done.returncode == 0
    assert "a.py:1" not in done.stdout
    assert "1 note not shown: --show-notes lists them." in done.stdout
    assert "a.py:1:5: note demo-call" in run("scan", "a.py", "--show-notes").stdout
    assert [finding["level"] for finding in findings(run("scan", "a.py", "--format", "json"))] == ["note"]


def test_evidence_and_the_fix_are_shown_on_request(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE + 'y = ambient("error", "manual")\n')
    lines = run("scan", "a.py", "--show-evidence").stdout.splitlines()
    assert "    a.py:2: ambient is called here" in lines
    assert "    fix: read settled (safe)" in lines
    assert "    fix: none: no witness" in lines


def test_the_json_document_has_every_key(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("é = 1; " + SAFE.splitlines()[1].strip().replace("return ", "x = ") + "\n")
    document = json.loads(run("scan", "a.py", "--format", "json").stdout)
    assert list(document) == ["schema", "version", "root", "findings", "skipped", "summary"]
    assert document["schema"] == 1
    assert document["root"] == str(tmp_path)
    (finding,) = document["findings"]
    assert list(finding) == [
        "rule", "group", "level", "path", "line", "column", "end_line", "end_column", "symbol", "message",
        "evidence", "fix", "unfixed_reason", "fingerprint",
    ]  # fmt: skip
    assert (finding["line"], finding["column"], finding["end_column"]) == (
        1,
        12,
        12 + len('ambient("warning", "safe")'),
    )
    edit = {"start_byte": 12, "end_byte": 12 + len('ambient("warning", "safe")'), "replacement": "settled"}
    assert finding["fix"] == {"applicability": "safe", "title": "read settled", "edits": [edit]}
    assert finding["unfixed_reason"] is None
    assert document["summary"] == {
        "found": 1, "fixed": 0, "unfixed": 1, "suppressed": 0, "baselined": 0, "by_rule": {"demo-call": 1},
    }  # fmt: skip


def test_a_manual_finding_has_no_fix_but_a_reason(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('x = ambient("error", "manual")\n')
    (finding,) = findings(run("scan", "a.py", "--format", "json"))
    assert finding["fix"] is None
    assert finding["unfixed_reason"] == "no witness"


def test_a_suppressed_finding_is_counted_but_not_listed(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'x = ambient("error", "safe")  # dtypefix: ignore[demo-call] checked by hand\n'
    )
    done = run("scan", "a.py", "--format", "json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["findings"] == []
    summary = document["summary"]
    assert (summary["found"], summary["suppressed"]) == (1, 1)


def test_what_comments_silence_can_be_seen(run, tmp_path: Path) -> None:
    comment = "# dtypefix: ignore[demo-call] checked by hand"
    (tmp_path / "a.py").write_text(f'x = ambient("error", "safe")  {comment}\ny = 1  {comment}\n')
    found = findings(run("scan", "a.py", "--no-ignores", "--format", "json"))
    assert [(finding["rule"], finding["line"]) for finding in found] == [("demo-call", 1)]


def test_without_a_path_the_checkout_is_read_and_ignored_files_are_not(run, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("built/\n")
    for name in ("sub/deep/a.py", "b.py", "built/c.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SAFE)
    found = findings(run("scan", "--format", "json", cwd=tmp_path / "sub"))
    assert [finding["path"] for finding in found] == ["../b.py", "deep/a.py"]


def test_standard_input_is_reported_under_the_given_name(run, tmp_path: Path) -> None:
    done = run("scan", "--stdin-filename", "pkg/no_such.py", "-", input=SAFE)
    assert done.returncode == 1
    assert done.stdout.startswith("pkg/no_such.py:2:12: warning")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--select", "demo-cal"], "did you mean 'demo-call'"),
        (["--ignore", "nonsense-entirely"], "unknown rule or group"),
        (["--format", "xml"], "'xml' is not one of 'text'"),
        (["-"], "--stdin-filename"),
        (["--python", "python3"], "--installed"),
        (["--installed", "--python", "no-such-python"], "no such interpreter"),
        (["foo==1.0"], "unknown project foo; known are vllm, sglang, vllm-ascend"),
        (["vllm==latest"], "'latest' is no version"),
        (["a.py", "vllm==0.20.2"], "cannot be read in one run"),
        (["a.py", "--vllm-root", "nowhere"], "no such directory"),
        (["a.py", "--vllm-root", "."], "no vllm package in it"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_a_bad_request_is_one_line_and_exit_2(run, tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "a.py").write_text(CLEAN)
    done = run("scan", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_comma_lists_and_repeated_selectors_add_up(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    assert run("scan", "a.py", "--select", " core, demo-call", "--select", "ALL").returncode == 1
    done = run("scan", "a.py", "--select", "ALL", "--ignore", "ALL")
    assert done.returncode == 2
    assert "no rule is left" in done.stderr


UNUSABLE = {
    "syntax.py": b"def f(:\n    ambient(\n",
    "bytes.py": b'x = "\xff\xfe"; ambient("error", "safe")\n',
    "binary.py": b"\x7fELF\0\0\0ambient(",
}


def test_files_that_cannot_be_read_are_listed_and_the_rest_is_done(run, tmp_path: Path) -> None:
    for name, content in UNUSABLE.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "dangling.py").symlink_to("nowhere.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "good.py").write_text(SAFE)
    names = [*UNUSABLE, "dangling.py", "folder.py", "missing.py", "good.py"]
    done = run("scan", *names)
    assert done.returncode == 2
    assert "good.py:2:12: warning" in done.stdout
    told = done.stderr.splitlines()
    assert len(told) == 6
    for name in names[:-1]:
        assert sum(line.startswith(f"dtypefix: {name}: ") for line in told) == 1
    document = json.loads(run("scan", *names, "--format", "json").stdout)
    assert {skipped["path"] for skipped in document["skipped"]} == set(names) - {"good.py"}
    assert [finding["path"] for finding in document["findings"]] == ["good.py"]


def test_a_file_that_may_not_be_read_is_said(run, tmp_path: Path, bound_by_permissions) -> None:
    locked = tmp_path / "locked.py"
    locked.write_text(SAFE)
    locked.chmod(0)
    done = run("scan", "locked.py", **bound_by_permissions)
    assert done.returncode == 2
    assert "dtypefix: locked.py: cannot be read: Permission denied" in done.stderr


def test_no_network_is_said_and_what_still_works(run, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "vllm-0.9.9").mkdir(parents=True)
    closed = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_FIND_LINKS": "",
    }
    done = run("scan", "vllm==0.1.7", env={**closed, "DTYPEFIX_SOURCES": str(kept)})
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "cannot be reached" in done.stderr
    assert "0.9.9" in done.stderr
    assert sorted(path.name for path in kept.iterdir()) == ["vllm-0.9.9"]


def test_a_closed_pipe_is_no_error(environment, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('x = ambient("error", "safe")\n' * 20_000)
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m dtypefix scan a.py | head -n 1"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("redirect", "status", "said"),
    [
        (">/dev/full", 2, "dtypefix: the report cannot be written: No space left on device\n"),
        (">&-", 1, ""),
        (">&- 2>&-", 1, ""),
    ],
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no device that is always full")
def test_a_report_that_cannot_be_written_is_no_traceback(
    environment, tmp_path: Path, redirect: str, status: int, said: str
) -> None:
    (tmp_path / "a.py").write_text('x = ambient("error", "safe")\n' * 2_000)
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m dtypefix scan a.py {redirect}"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr, done.stdout) == (status, said, "")


def test_a_selection_of_nothing_is_refused(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    done = run("rewrite", "--select", "", "a.py")
    assert done.returncode == 2
    assert "names no rule" in done.stderr
    assert (tmp_path / "a.py").read_text() == SAFE


def test_colour_follows_the_environment(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    assert "\x1b[" not in run("scan", "a.py").stdout
    assert "\x1b[" in run("scan", "a.py", env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b[" not in run("scan", "a.py", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout
    assert "\x1b[" not in run("scan", "a.py", "--format", "json", env={"FORCE_COLOR": "1"}).stdout


def test_control_characters_of_a_file_name_do_not_reach_the_terminal(run, tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31m.py").write_text(SAFE)
    assert "\x1b" not in run("scan", ".").stdout


def test_a_file_name_that_is_no_utf8_is_read_and_shown_escaped(run, tmp_path: Path) -> None:
    with open(bytes(tmp_path) + b"/caf\xe9.py", "w") as file:
        file.write(SAFE)
    done = run("scan", ".")
    assert done.returncode == 1
    assert "caf\\xe9.py:2:12:" in done.stdout


def test_a_scan_without_a_candidate_imports_neither_libcst_nor_rich(environment, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CLEAN)
    program = (
        "import sys; from dtypefix.cli import main; status = main(['scan', 'a.py']); "
        "heavy = sorted({'libcst', 'rich', 'unearth', 'packaging', 'platformdirs'} & set(sys.modules)); "
        "print(heavy, file=sys.stderr); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr.strip() == "[]"


def test_help_fits_a_screen_and_names_the_exit_codes(run) -> None:
    for command in ("scan", "rewrite", "rules", "explain"):
        shown = run(command, "--help").stdout
        assert "Exit status:" in shown
        assert len(shown.splitlines()) <= 50


def test_a_file_asked_for_by_name_has_to_be_python_even_if_no_rule_looks_at_it(run, tmp_path: Path) -> None:
    (tmp_path / "syntax.py").write_text("def f(:\n")
    (tmp_path / "bytes.py").write_bytes(b"x = '\xff'\n")
    (tmp_path / "latin.py").write_bytes(b"# coding: latin-1\nx = '\xff'\n")
    done = run("scan", "syntax.py", "bytes.py", "latin.py")
    assert done.returncode == 2
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == ["syntax.py", "bytes.py"]
    # In a folder only what a rule looks at is parsed; an encoding is checked in passing.
    done = run("scan", ".")
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == ["bytes.py"]
    assert run("scan", "--stdin-filename", "a.py", "-", input="def f(:\n").returncode == 2


def test_a_working_directory_below_a_closed_folder_does_not_stop_the_run(
    run, tmp_path: Path, bound_by_permissions
) -> None:
    inside = tmp_path / "closed/inside"
    inside.mkdir(parents=True)
    (inside / "a.py").write_text(SAFE)
    (tmp_path / "closed").chmod(0o111)
    assert run("scan", "a.py", cwd=inside, **bound_by_permissions).returncode == 1


def test_places_that_cannot_be_looked_into_are_said(run, tmp_path: Path, bound_by_permissions) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed/a.py").write_text(SAFE)
    (tmp_path / "open/closed").mkdir(parents=True)
    (tmp_path / "open/a.py").write_text(SAFE)
    (tmp_path / "closed").chmod(0)
    (tmp_path / "open/closed").chmod(0)
    done = run("scan", "closed/a.py", "closed", "open", "a" * 300, "open/a.py/b.py", **bound_by_permissions)
    assert done.returncode == 2
    assert done.stdout.startswith("open/a.py:2:12: ")
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == [
        "closed/a.py", "closed", "open/closed", "a" * 300, "open/a.py/b.py",
    ]  # fmt: skip


def test_a_working_directory_that_is_gone_is_said(environment, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    done = subprocess.run(
        ["sh", "-c", f"mkdir {gone}; cd {gone}; rmdir {gone}; exec '{sys.executable}' -m dtypefix scan"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("dtypefix: the working directory is gone")
