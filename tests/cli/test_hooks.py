"""The hooks as pre-commit runs them, installed from a clone of this repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import REPOSITORY

FAULTY = """\
import torch
from vllm.config import get_current_vllm_config


class Scheme:
    scale_dtype = torch.float32

    def __init__(self):
        self.out_dtype = torch.get_default_dtype()
        self.input_dtype = get_current_vllm_config().model_config.dtype
"""
MENDED = FAULTY.replace("torch.get_default_dtype()", "get_current_vllm_config().model_config.dtype")


@pytest.fixture
def outside(tmp_path: Path) -> dict[str, str]:
    """An environment with a pre-commit cache of its own and no trace of an outer repository or test."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("GIT_DIR", "GIT_INDEX", "GIT_WORK", "PYTHONPATH"))
    }
    identity = {
        f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    return {**kept, **identity, "PRE_COMMIT_HOME": str(tmp_path / "cache"), "NO_COLOR": "1"}


def test_a_faulty_commit_is_refused_mended_and_then_passes(tmp_path: Path, outside: dict[str, str]) -> None:
    def call(*command: str, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, cwd=cwd, env=outside, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    clone, work = tmp_path / "clone", tmp_path / "work"
    call("git", "clone", "--quiet", str(REPOSITORY), str(clone), cwd=tmp_path)
    revision = call("git", "rev-parse", "HEAD", cwd=clone).stdout.strip()
    work.mkdir()
    call("git", "init", "--quiet", cwd=work)
    (work / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {clone}\n  rev: {revision}\n  hooks: [id: dtypefix-scan, id: dtypefix-rewrite]\n"
    )
    call(sys.executable, "-m", "pre_commit", "install", cwd=work)
    (work / "scheme.py").write_text(FAULTY)
    (work / "fine.py").write_text("x = 1\n")
    call("git", "add", ".", cwd=work)

    refused = call("git", "commit", "-m", "faulty", cwd=work, check=False)
    said = refused.stdout + refused.stderr
    assert refused.returncode == 1, said
    assert "scheme.py:9:26: warning ambient-out-dtype: " in said
    assert "fine.py:" not in said
    assert "files were modified by this hook" in said
    assert (work / "scheme.py").read_text() == MENDED

    call("git", "add", ".", cwd=work)
    call("git", "commit", "-m", "mended", cwd=work)
    assert call("git", "show", "HEAD:scheme.py", cwd=work).stdout == MENDED
