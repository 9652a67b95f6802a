"""The command as a person meets it, as far as it goes without a vLLM runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .trees import tree

REPOSITORY = Path(__file__).resolve().parents[2]


def validate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dtypefix", "validate", *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    base = tree(tmp_path / "base", {"vllm/a.py": "x = 1\n"})
    patched = tree(tmp_path / "patched", {"vllm/a.py": "x = 2\n"})
    return str(patched), str(base)


PLACE = ("--place", "vllm/a.py:1:unguarded-combiner")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "nothing to prove"),
        (PLACE, "--python PATH of an environment, or --provision"),
        ((*PLACE, "--python", "/no/such/python"), "cannot be run"),
        ((*PLACE, "--python", "x", "--provision"), "--python PATH of an environment, or --provision"),
        (("--place", "vllm/a.py:1:no-such-rule", "--python", sys.executable), "unknown rule"),
        (("--place", "nonsense"), "PATH:LINE:RULE"),
        ((*PLACE, "--python", sys.executable), "has no torch"),
        (("--tier", "nine"), "'nine'"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    pair: tuple[str, str], options: tuple[str, ...], why: str
) -> None:
    patched, base = pair
    done = validate(patched, "--base", base, *options)
    assert done.returncode == 2
    assert why in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_a_folder_without_vllm_is_refused(tmp_path: Path) -> None:
    done = validate(str(tmp_path))
    assert done.returncode == 2
    assert "no vllm/__init__.py" in done.stderr


def test_the_help_says_what_the_exit_statuses_mean() -> None:
    done = validate("--help")
    assert done.returncode == 0
    assert "REPRODUCED-NOT-FIXED" in done.stdout
