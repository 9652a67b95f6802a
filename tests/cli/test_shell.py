from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import SAFE

COMMANDS = (
    ("scan",), ("rewrite",), ("rules",), ("explain",), ("baseline",), ("baseline", "create"),
    ("baseline", "update"), ("baseline", "check"),
)  # fmt: skip


@pytest.mark.parametrize("command", [(), *COMMANDS])
def test_help_fits_a_screen(run, command: tuple[str, ...]) -> None:
    lines = run(*command, "--help").stdout.splitlines()
    assert len(lines) <= 50
    assert all(len(line) <= 80 for line in lines)
    if command != ("baseline",):
        assert any("Exit status:" in line for line in lines)


def completions(run, words: str) -> list[str]:
    env = {"_DTYPEFIX_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    return [line.partition(",")[2] for line in run(env=env).stdout.splitlines()]


def test_commands_options_and_rules_are_completed(run) -> None:
    assert completions(run, "dtypefix re") == ["rewrite"]
    assert "--select" in completions(run, "dtypefix scan --s")
    assert completions(run, "dtypefix scan --select demo") == ["demo-call"]
    assert completions(run, "dtypefix scan --select ignore-comment,de") == ["ignore-comment,demo-call"]
    assert completions(run, "dtypefix explain ign") == ["ignore-comment"]
    assert completions(run, "dtypefix baseline up") == ["update"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_completion_script_is_printed(run, shell: str) -> None:
    assert "_DTYPEFIX_COMPLETE" in run(env={"_DTYPEFIX_COMPLETE": f"{shell}_source"}).stdout


def test_doubtful_escapes_of_a_scanned_file_are_not_our_affair(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('pattern = "\\d"\n' + SAFE)
    done = run("scan", "a.py")
    assert done.stderr == ""


def test_text_fits_the_terminal(environment: dict[str, str], tmp_path: Path) -> None:
    program = (
        "import os, pty, sys\n"
        "pid, fd = pty.fork()\n"
        "if pid == 0: os.execv(sys.executable, [sys.executable, '-m', 'dtypefix', 'rules'])\n"
        "out = b''\n"
        "while True:\n"
        "    try: part = os.read(fd, 65536)\n"
        "    except OSError: break\n"
        "    if not part: break\n"
        "    out += part\n"
        "sys.stdout.buffer.write(out); sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    env = {**environment, "COLUMNS": "60", "NO_COLOR": "1", "TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("ignore-comment") for line in lines)
    assert all(len(line) <= 60 for line in lines)
