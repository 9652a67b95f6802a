"""Finding importable modules under the directories a run may read."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Protocol

from dtypefix.analysis.project import ModuleSource
from dtypefix.sources.read import Unreadable, read_source
from dtypefix.sources.target import display_path

_CLASS = re.compile(rb"^class\s+(\w+)\s*\(([^)]*)\)\s*:", re.MULTILINE)


class HeaderCache(Protocol):
    """Remembers the class headers of files by their content."""

    def headers(self, file: Path) -> list[list[str]] | None:
        """The class headers of a file, or None where they are not known."""
        ...

    def put_headers(self, file: Path, headers: list[list[str]]) -> None:
        """Remember the class headers of a file."""
        ...


class FileLookup:
    """Looks modules up in ``roots``, best first, and names files relative to ``base`` in reports.

    ``files`` are the files of the run: classes derived from a class are searched in the top-level
    packages that they belong to. ``unsaved`` holds the bytes of files that stand for those on disk.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        base: Path,
        files: Sequence[Path] = (),
        unsaved: Mapping[Path, bytes] | None = None,
    ) -> None:
        self.roots = tuple(roots)
        self.base = base
        self.files = tuple(files)
        self._unsaved = dict(unsaved or {})
        self._located: dict[str, Path | None] = {}
        self.header_cache: HeaderCache | None = None

    def find(self, name: str) -> ModuleSource | None:
        """The module of a dotted name, or None when no root holds it."""
        path = self.locate(name)
        if path is None:
            return None
        try:
            return ModuleSource(display_path(path, self.base), self._source(path), path.stem == "__init__")
        except Unreadable:
            return None

    def locate(self, name: str) -> Path | None:
        """The file of the module of a dotted name, or None when no root holds it."""
        if name not in self._located:
            self._located[name] = self._locate(name)
        return self._located[name]

    def _locate(self, name: str) -> Path | None:
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts):
            return None
        for root in self.roots:
            for relative in (os.path.join(*parts, "__init__.py"), os.path.join(*parts) + ".py"):
                path = root / relative
                if path in self._unsaved or os.path.isfile(path):
                    return path
        return None

    def _source(self, path: Path) -> bytes:
        unsaved = self._unsaved.get(path)
        return read_source(path) if unsaved is None else unsaved

    def line_length(self, path: str) -> int | None:
        """The line length for ruff or Black in the nearest ``pyproject.toml`` above a reported path."""
        for folder in (self.base / path).absolute().parents:
            settings = folder / "pyproject.toml"
            if os.path.isfile(settings):
                return _line_length(settings)
        return None

    def _class_headers(self) -> Iterator[tuple[str, str, str]]:
        """``(dotted module, class name, bases text)`` of every top-level class that has bases."""
        for path in self._surroundings():
            name, _ = module_name(path, self.roots)
            if name:
                for cls, bases in self._headers_in(path):
                    yield name, cls, bases

    def _headers_in(self, path: Path) -> list[list[str]]:
        known = self.header_cache.headers(path) if self.header_cache is not None else None
        if known is not None:
            return known
        try:
            source = self._source(path)
        except Unreadable:
            return []
        found = [
            [match[1].decode("utf-8", "replace"), match[2].decode("utf-8", "replace")]
            for match in _CLASS.finditer(source)
        ]
        if self.header_cache is not None:
            self.header_cache.put_headers(path, found)
        return found

    @cached_property
    def _derived(self) -> dict[str, list[tuple[str, str]]]:
        by_base: dict[str, list[tuple[str, str]]] = {}
        for module, name, bases in self._class_headers():
            for base in bases.split(","):
                simple = base.split("[")[0].strip().rpartition(".")[2]
                if simple:
                    by_base.setdefault(simple, []).append((module, name))
        return by_base

    def derived(self, base: str) -> list[tuple[str, str]]:
        """The module and the name of each top-level class that names ``base`` among its bases."""
        return self._derived.get(base, [])

    def _surroundings(self) -> Iterator[Path]:
        """The files of a run that lie in no package, and every file of the packages of the others."""
        seen: set[Path] = set()
        for file in self.files:
            package = _package(file.parent, tuple(self.roots))
            if not package:
                yield file
                continue
            folder = file.parents[len(package) - 1]
            if folder not in seen:
                seen.add(folder)
                yield from sorted(folder.rglob("*.py"))


@cache
def _line_length(settings: Path) -> int | None:
    try:
        tools = tomllib.loads(settings.read_text(encoding="utf-8"))["tool"]
    except (OSError, ValueError, LookupError):
        return None
    for tool in ("ruff", "black"):
        try:
            length = tools[tool]["line-length"]
        except (LookupError, TypeError):
            continue
        if isinstance(length, int):
            return length
    return None


@cache
def _is_package(folder: Path) -> bool:
    return os.path.isfile(folder / "__init__.py")


def module_name(path: Path, roots: Sequence[Path]) -> tuple[str, bool]:
    """The dotted module name of a file and whether it is a package's ``__init__.py``.

    The name starts at the outermost folder with an ``__init__.py``, or else at the deepest root
    above the file; it is ``""`` where neither gives one.
    """
    is_package = path.name == "__init__.py"
    package = _package(path.parent, tuple(roots))
    if package is None:
        return "", is_package
    parts = package if is_package else (*package, path.stem)
    return (".".join(parts), is_package) if parts and parts[-1].isidentifier() else ("", is_package)


@cache
def _package(folder: Path, roots: tuple[Path, ...]) -> tuple[str, ...] | None:
    """The names from the top-level package down to a folder; None where they make no dotted name."""
    top: Path | None = folder
    if _is_package(folder):
        while top is not None and _is_package(top) and top.parent != top:
            top = top.parent
    else:
        above = [root for root in roots if folder.is_relative_to(root)]
        top = max(above, key=lambda root: len(root.parts), default=None)
    if top is None:
        return None
    parts = folder.relative_to(top).parts
    return parts if all(part.isidentifier() for part in parts) else None
