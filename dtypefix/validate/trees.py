"""The two trees of a run: the patched checkout, and the tree it came from."""

from __future__ import annotations

import difflib
import filecmp
import os
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dtypefix.errors import UserError
from dtypefix.validate.overlay import check_tree

_SKIPPED = frozenset({"__pycache__", ".git"})


@dataclass(frozen=True, slots=True)
class Trees:
    """Base and patched root, and the Python files under ``vllm/`` that differ, base-relative."""

    base: Path
    patched: Path
    changed: tuple[str, ...]


def find_trees(checkout: Path, base: str | None, scratch: Path) -> Trees:
    """The trees of a checkout and its base: a folder, a release ``vllm==X``, or a git revision.

    Args:
        checkout: the patched tree.
        base: what it is compared with; ``HEAD`` when None and the checkout is a git one.
        scratch: where a git revision is unpacked.

    Raises:
        UserError: there is no vLLM, no such base, or nothing to tell the base from.
    """
    patched = check_tree(checkout)
    if base is None and not (patched / ".git").exists():
        raise UserError(f"{checkout} is no git checkout: name the tree it came from with --base")
    if base is not None and "==" in base:
        from dtypefix.sources.releases import parse_release, release_root

        before = check_tree(release_root(parse_release(base)[0]))
    elif base is not None and Path(base).is_dir():
        before = check_tree(Path(base))
    else:
        before = _revision(patched, base or "HEAD", scratch)
    if before == patched:
        raise UserError("--base is the checkout itself; name the tree it came from")
    return Trees(before, patched, changed_files(before, patched))


def _revision(checkout: Path, revision: str, scratch: Path) -> Path:
    target = scratch / "base"
    target.mkdir(parents=True)
    archive = scratch / "base.tar"
    command = ["git", "-C", str(checkout), "archive", "--output", str(archive), revision]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        told = done.stderr.strip().splitlines()
        raise UserError(
            f"--base {revision}: neither a folder nor a revision of {checkout}: {told[-1] if told else ''}"
        )
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    archive.unlink()
    # git does not keep the file the build writes the version to.
    version = checkout / "vllm" / "_version.py"
    if version.is_file() and not (target / "vllm" / "_version.py").exists():
        (target / "vllm" / "_version.py").write_bytes(version.read_bytes())
    return check_tree(target)


def changed_files(base: Path, patched: Path) -> tuple[str, ...]:
    """The Python files under ``vllm/`` that exist in one tree only or differ in their bytes."""
    names = _python_files(base) | _python_files(patched)
    return tuple(
        sorted(
            name
            for name in names
            if not (base / name).is_file()
            or not (patched / name).is_file()
            or not filecmp.cmp(base / name, patched / name, shallow=False)
        )
    )


def _python_files(tree: Path) -> set[str]:
    found = set()
    for folder, folders, names in os.walk(tree / "vllm"):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        found |= {Path(folder, name).relative_to(tree).as_posix() for name in names if name.endswith(".py")}
    return found


def diff(trees: Trees, paths: Sequence[str] | None = None) -> str:
    """The change as a unified diff."""
    parts: list[str] = []
    for path in paths if paths is not None else trees.changed:
        before, after = (
            (root / path).read_text("utf-8", "replace").splitlines(keepends=True)
            if (root / path).is_file()
            else []
            for root in (trees.base, trees.patched)
        )
        parts.extend(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}"))
    return "".join(line if line.endswith("\n") else line + "\n" for line in parts)
