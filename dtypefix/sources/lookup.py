"""Finding importable modules under the directories a run may read."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from dtypefix.analysis.project import ModuleSource
from dtypefix.sources.read import Unreadable, read_source
from dtypefix.sources.target import display_path

_CLASS = re.compile(rb"^class\s+(\w+)\s*\(([^)]*)\)\s*:", re.MULTILINE)


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

    def find(self, name: str) -> ModuleSource | None:
        """The module of a dotted name, or None when no root holds it."""
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts):
            return None
        for root in self.roots:
            for relative, is_package in (
                (Path(*parts, "__init__.py"), True),
                (Path(*parts[:-1], parts[-1] + ".py"), False),
            ):
                path = root / relative
                if path in self._unsaved or os.path.isfile(path):
                    try:
                        return ModuleSource(display_path(path, self.base), self._source(path), is_package)
                    except Unreadable:
                        return None
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

    def subclass_headers(self) -> Iterable[tuple[str, bytes, bytes]]:
        """``(dotted module, class name, bases text)`` of every top-level class that has bases."""
        for path in self._surroundings():
            try:
                source = self._source(path)
            except Unreadable:
                continue
            name, _ = module_name(path, self.roots)
            if name:
                for match in _CLASS.finditer(source):
                    yield name, match[1], match[2]

    def _surroundings(self) -> Iterator[Path]:
        """The files of a run that lie in no package, and every file of the packages of the others."""
        seen: set[Path] = set()
        for file in self.files:
            name, _ = module_name(file, self.roots)
            depth = name.count(".") + (file.name == "__init__.py")
            folder = file.parents[depth - 1] if 0 < depth <= len(file.parents) else None
            if folder is not None and folder not in seen:
                seen.add(folder)
                yield from sorted(folder.rglob("*.py"))
            elif folder is None:
                yield file


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
    folder = path.parent
    if _is_package(folder):
        while _is_package(folder.parent) and folder.parent != folder:
            folder = folder.parent
        top: Path | None = folder.parent
    else:
        above = [root for root in roots if path.is_relative_to(root)]
        top = max(above, key=lambda root: len(root.parts), default=None)
    if top is None:
        return "", is_package
    parts = list(path.relative_to(top).with_suffix("").parts)
    if is_package:
        parts.pop()
    return (
        (".".join(parts), is_package) if parts and all(p.isidentifier() for p in parts) else ("", is_package)
    )
