"""Proofs in a real vLLM. Slow: they run with ``make test-vllm`` alone, which sets ``DTYPEFIX_VLLM``.

``DTYPEFIX_VLLM_PYTHON`` names an interpreter to use in place of a provisioned one. ``DTYPEFIX_VLLM_REPORTS``
names a folder that keeps the reports on whole releases; one that is there is read, not made again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dtypefix.sources.releases import Release, release_root
from dtypefix.validate.runtime import inspect, provision

if not os.environ.get("DTYPEFIX_VLLM"):
    collect_ignore_glob = ["test_*.py"]

REPOSITORY = Path(__file__).resolve().parents[2]

# The release whose compiled extensions serve the end-to-end tier; its dependencies and its torch serve
# the model-level tiers of the older release too.
COMPILED = "0.32.0"


def dtypefix(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dtypefix", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )


@dataclass(frozen=True)
class Proof:
    """What ``dtypefix validate`` said, and its exit status."""

    said: dict[str, Any]
    status: int

    def verdicts(self, path: str, line: int, *, tier: str = "", platform: str = "") -> set[str]:
        return {
            row["verdict"]
            for row in self.said["rows"]
            if (row["path"].endswith(path) and row["line"] == line)
            and tier in ("", row["tier"])
            and platform in ("", row["platform"])
        }

    def row(self, path: str, line: int, tier: str, platform: str = "cpu") -> dict[str, Any]:
        (row,) = (
            row
            for row in self.said["rows"]
            if row["path"].endswith(path)
            and (row["line"], row["tier"], row["platform"]) == (line, tier, platform)
        )
        return dict(row)


Prove = Callable[..., Proof]


@pytest.fixture(scope="session")
def runtime() -> list[str]:
    """The option that names where the probes run; without one given, a runtime is provisioned once."""
    given = os.environ.get("DTYPEFIX_VLLM_PYTHON")
    return ["--python", given] if given else [f"--provision={COMPILED}"]


@pytest.fixture(scope="session")
def python(runtime: list[str], release: Callable[[str], Path]) -> Path:
    """The interpreter that the probes run in."""
    if runtime[0] == "--python":
        return inspect(Path(runtime[1])).python
    return provision(release("0.20.2"), "0.20.2", print, wanted=COMPILED).python


@pytest.fixture(scope="session")
def release() -> Callable[[str], Path]:
    return lambda version: release_root(Release("vllm", version))


@pytest.fixture(scope="session")
def prove(runtime: list[str]) -> Prove:
    def run(patched: Path, base: Path, *options: str) -> Proof:
        kept = (
            Path(os.environ["DTYPEFIX_VLLM_REPORTS"], f"{base.name}.json") if keeps and not options else None
        )
        if kept is not None and kept.is_file():
            said = json.loads(kept.read_text())
            return Proof(said, said["exit_status"])
        done = dtypefix("validate", patched, "--base", base, "--format", "json", *runtime, *options)
        assert done.returncode in (0, 1, 3), done.returncode
        if kept is not None:
            kept.write_text(done.stdout)
        return Proof(json.loads(done.stdout), done.returncode)

    keeps = "DTYPEFIX_VLLM_REPORTS" in os.environ

    return run


@pytest.fixture(scope="session")
def rewritten(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A copy of a release with the two seeds' rules applied."""

    def run(version: str) -> Path:
        folder = tmp_path_factory.mktemp("rewritten") / f"vllm-{version}"
        rules = "unguarded-combiner,ambient-out-dtype"
        done = dtypefix("rewrite", "--select", rules, "--output", folder, f"vllm=={version}")
        assert done.returncode in (0, 1), done.returncode
        return folder

    return run


@pytest.fixture
def patch(tmp_path: Path) -> Callable[..., Path]:
    """A copy of a tree's Python files with some text put in front of a line of one file."""

    def run(base: Path, path: str, line: int, text: str) -> Path:
        folder = tmp_path / base.name
        shutil.copytree(base / "vllm", folder / "vllm")
        lines = (folder / path).read_text().splitlines(keepends=True)
        lines.insert(line - 1, text)
        (folder / path).write_text("".join(lines))
        return folder

    return run
