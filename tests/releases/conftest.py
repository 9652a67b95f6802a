"""Real source releases, fetched once into the user's cache and shared by the tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dtypefix.api import FileResult, InputFile, Options, Roots, scan
from dtypefix.sources.releases import package_folder, parse_release, release_root

Findings = dict[str, FileResult]


@pytest.fixture(scope="session")
def release() -> Callable[[str], Path]:
    """The root of a release such as ``vllm==0.20.2``."""
    return lambda requirement: release_root(parse_release(requirement)[0])


@pytest.fixture(scope="session")
def scanned(release: Callable[[str], Path]) -> Callable[..., list[FileResult]]:
    """The results of a release's package, scanned once per session and rule selection."""
    known: dict[tuple[str, tuple[str, ...], str], list[FileResult]] = {}

    def results(requirement: str, *rules: str, vllm: str = "") -> list[FileResult]:
        key = (requirement, rules, vllm)
        if key not in known:
            root = release(requirement)
            folder = root / package_folder(parse_release(requirement)[0])
            files = [InputFile(p.relative_to(root).as_posix(), p) for p in sorted(folder.rglob("*.py"))]
            roots = Roots((root, release(vllm)) if vllm else (root,), root)
            known[key] = list(scan(files, Options(select=rules), roots))
        return known[key]

    return results


@pytest.fixture
def copied(release: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A writable copy of a release."""

    def copy(requirement: str) -> Path:
        target = tmp_path / "tree"
        shutil.copytree(release(requirement), target)
        return target

    return copy
