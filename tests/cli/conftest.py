"""Drives the real command line in a process of its own, with a rule pack made for tests."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACK = Path(__file__).with_name("pack")
Run = Callable[..., subprocess.CompletedProcess[str]]

SAFE = 'def f():\n    return ambient("warning", "safe")\n'
CLEAN = "def f():\n    return settled\n"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH in which the test pack is installed."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(PACK, folder, dirs_exist_ok=True)
    metadata = folder / "demo_rules-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: demo-rules\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[dtypefix.rules]\ndemo = demo_rules\n")
    return folder


@pytest.fixture(scope="session")
def environment(site: Path) -> dict[str, str]:
    """The environment of a run: the test pack, no colour settings, no surprises from a user's own."""
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "DTYPEFIX_SOURCES")}
    kept["XDG_CONFIG_HOME"] = str(site / "no-configuration")
    kept["DTYPEFIX_CACHE"] = str(site / "results")
    return {**kept, "PYTHONPATH": os.pathsep.join([str(site), str(REPOSITORY)]), "PYTHONUTF8": "1"}


@pytest.fixture
def run(tmp_path: Path, environment: dict[str, str]) -> Run:
    """Runs ``dtypefix`` in ``tmp_path``; keyword arguments are those of ``subprocess.run``."""

    def call(*arguments: str, env: dict[str, str] | None = None, **options):
        options.setdefault("cwd", tmp_path)
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("text", True)
        done = subprocess.run(
            [sys.executable, "-m", "dtypefix", *arguments],
            capture_output=True,
            env={**environment, **(env or {})},
            check=False,
            **options,
        )
        assert "Traceback" not in str(done.stderr), done.stderr
        return done

    return call


def _drop_override() -> None:
    libc = ctypes.CDLL(None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
        if libc.prctl(24, capability, 0, 0, 0) != 0:  # PR_CAPBSET_DROP
            raise OSError("prctl")


@pytest.fixture
def bound_by_permissions() -> dict[str, Callable[[], None]]:
    """Options for ``run`` under which file permissions hold, also where the tests run as root."""
    return {"preexec_fn": _drop_override} if os.geteuid() == 0 else {}
