"""What one run reads: the files, how reports name them and where their imports are looked up."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from dtypefix.findings import Skipped

Kind = Literal["paths", "stdin", "release", "installed"]


@dataclass(frozen=True)
class Target:
    """The files of one run.

    ``root`` is the directory that reported paths are relative to, ``files`` are absolute paths,
    ``search_roots`` the directories where imports are looked up, best first. ``skipped`` says which
    arguments could not be used, ``checkout`` is the top of the git checkout around the files, ``named``
    are the files that a person asked for one by one. Only files of kind ``paths`` may be written.
    """

    kind: Kind
    label: str
    root: Path
    files: tuple[Path, ...]
    search_roots: tuple[Path, ...]
    skipped: tuple[Skipped, ...] = ()
    checkout: Path | None = None
    named: frozenset[Path] = frozenset()

    @property
    def read_only(self) -> bool:
        """Whether the files belong to someone else: a release in the cache or an installed package."""
        return self.kind != "paths"

    def display(self, file: Path) -> str:
        """How reports name ``file``: relative to ``root``, ``/`` between parts, and always printable."""
        return display_path(file, self.root)


def display_path(file: Path | str, root: Path) -> str:
    """``file`` relative to ``root`` with ``/`` separators; bytes that are no UTF-8 show escaped."""
    try:
        relative = os.path.relpath(file, root)
    except ValueError:  # another drive on Windows
        relative = os.fspath(file)
    if os.sep != "/":
        relative = relative.replace(os.sep, "/")
    return printable(relative)


def printable(text: str) -> str:
    """``text`` with what UTF-8 cannot carry (undecodable bytes of a file name) escaped."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def package_roots(files: Iterable[Path]) -> tuple[Path, ...]:
    """The directories that hold the top-level packages of ``files``, the one with most files first."""

    @cache
    def is_package(folder: Path) -> bool:
        return os.path.isfile(folder / "__init__.py")

    @cache
    def root(folder: Path) -> Path | None:
        if not is_package(folder):
            return None
        return root(folder.parent) or folder.parent

    counted = Counter(found for file in files if (found := root(file.parent)) is not None)
    return tuple(folder for folder, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def unique(files: Iterable[Path]) -> tuple[Path, ...]:
    """``files`` in order, without a file that another of them reaches by a link or another spelling."""

    @cache
    def real_folder(folder: str) -> str:
        return os.path.realpath(folder)

    def identity(path: Path) -> str:
        if os.path.islink(path):
            return os.path.realpath(path)
        return os.path.join(real_folder(os.path.dirname(path)), path.name)

    # The file itself is kept rather than a link to it, whichever was named first.
    ordered = list(files)
    kept: dict[str, Path] = {}
    for path in ordered:
        key = identity(path)
        if key not in kept or (kept[key].is_symlink() and not path.is_symlink()):
            kept[key] = path
    chosen = set(kept.values())
    return tuple(dict.fromkeys(path for path in ordered if path in chosen))
