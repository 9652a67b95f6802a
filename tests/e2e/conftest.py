"""A newcomer's machine: dtypefix cloned and installed as the documentation says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import REPOSITORY

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of this repository as it is now, what is not committed included."""
    target = tmp_path_factory.mktemp("clone") / "dtypefix"
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(target)], check=True)
    listed = ["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard"]
    changed = subprocess.run(listed, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    for name in filter(None, changed.split("\0")):
        if (REPOSITORY / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((REPOSITORY / name).read_bytes())
    if changed:
        commit(target, "as it is")
    return target


@pytest.fixture(scope="session")
def installed(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` of an environment into which the clone was installed, with pre-commit beside it."""
    target = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", str(target)], check=True)
    install = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", str(clone), "pre-commit"]
    subprocess.run(install, check=True)
    return target / "bin"


@pytest.fixture
def call(installed: Path, tmp_path: Path) -> Call:
    """Runs a program of that environment, or any other, as a person with nothing configured."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "PYTHON", "PRE_COMMIT", "XDG_"))}
    environment = {
        **kept, **identity(), "HOME": str(home), "PATH": f"{installed}:{os.environ['PATH']}", "NO_COLOR": "1",
        "DTYPEFIX_SOURCES": str(tmp_path / "no-sources"),
    }  # fmt: skip

    def run(*command: str, cwd: Path, status: int = 0, **extra: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, cwd=cwd, env={**environment, **extra}, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    return run


def identity() -> dict[str, str]:
    """Who commits."""
    return {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def commit(folder: Path, message: str) -> None:
    """Commit all that is in a checkout, its hooks left out."""
    for arguments in (["add", "."], ["commit", "--quiet", "--no-verify", "-m", message]):
        subprocess.run(["git", *arguments], cwd=folder, check=True, env={**os.environ, **identity()})


def block(page: str, holding: str) -> str:
    """The code block of a page of the documentation that holds a text, as a reader would copy it."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w+(?: title=\"[^\"]*\")?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return next(found for found in blocks if holding in found)
