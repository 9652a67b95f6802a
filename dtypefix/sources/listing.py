"""Which Python files a directory holds: what git tracks or would track, else all but the usual litter."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from dtypefix.sources.git import ask

SUFFIX = ".py"
LITTER = frozenset({"__pycache__", "node_modules", "site-packages"})


def python_files(
    directory: Path,
    on_error: Callable[[OSError], None] | None = None,
    *,
    respect_gitignore: bool = True,
) -> list[Path]:
    """The Python files under ``directory``, sorted.

    Inside a git checkout those are the tracked and the untracked but not ignored files, submodules and
    nested checkouts included; a directory that is itself ignored, and any directory outside a checkout,
    is walked, leaving out hidden directories, virtual environments and caches. Links to directories are
    not followed, so a loop of links is harmless. ``on_error`` is told of each directory that cannot be
    read in a walk. Without ``respect_gitignore`` every directory is walked.
    """
    listed = _from_git(directory) if respect_gitignore else None
    found = _walk(directory, on_error) if listed is None else _outside_environments(listed, directory)
    return sorted(path for path in found if _is_candidate(path))


def checkout_root(directory: Path) -> Path | None:
    """The top of the git checkout around ``directory``; None outside one or without git."""
    out = ask(directory, "rev-parse", "--show-toplevel")
    return None if out is None else Path(os.fsdecode(out.rstrip(b"\n")))


def _from_git(directory: Path) -> Iterable[Path] | None:
    out = ask(directory, "ls-files", "-co", "--exclude-standard", "--deduplicate", "-z")
    if out is None:
        return None
    if not out and ask(directory, "check-ignore", "-q", ".") is not None:
        return None
    return _entries(directory, out)


def _entries(directory: Path, listing: bytes) -> Iterator[Path]:
    for entry in listing.split(b"\0"):
        if not entry:
            continue
        path = directory / os.fsdecode(entry)
        # git names a submodule, or another checkout in this one, by its directory alone.
        if entry.endswith(b"/") or (not entry.endswith(b".py") and _is_nested_checkout(path)):
            yield from _from_git(path) or ()
        else:
            yield path


def _is_nested_checkout(path: Path) -> bool:
    return not path.is_symlink() and os.path.exists(path / ".git")


def _walk(directory: Path, on_error: Callable[[OSError], None] | None) -> Iterator[Path]:
    for folder, subfolders, names in os.walk(directory, onerror=on_error):
        subfolders[:] = [
            name
            for name in subfolders
            if not name.startswith(".") and name not in LITTER and not _is_environment(Path(folder, name))
        ]
        yield from (Path(folder, name) for name in names)


def _outside_environments(paths: Iterable[Path], top: Path) -> Iterator[Path]:
    @cache
    def inside(folder: Path) -> bool:
        return folder != top and (_is_environment(folder) or inside(folder.parent))

    return (path for path in paths if path.suffix == SUFFIX and not inside(path.parent))


def _is_environment(folder: Path) -> bool:
    return os.path.isfile(folder / "pyvenv.cfg")


def _is_candidate(path: Path) -> bool:
    """Whether a listed path is to be read; what cannot even be looked at is, so that it gets reported."""
    if path.suffix != SUFFIX:
        return False
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return os.path.islink(path)
    except OSError:
        return True
