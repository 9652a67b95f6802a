"""Reading settings from TOML: checked against their declarations, paths made absolute."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtypefix.config.patterns import check
from dtypefix.config.settings import About, Kind, declared
from dtypefix.errors import UserError

OWN_FILE = "dtypefix.toml"
PYPROJECT = "pyproject.toml"
EXTEND = "extend"


@dataclass(frozen=True)
class Layer:
    """The settings of one place, by TOML name, and for each the place that set it."""

    values: Mapping[str, Any]
    origins: Mapping[str, str]

    def over(self, lower: Layer) -> Layer:
        """These settings laid over ``lower``: a key replaces, an ``extend-…`` key adds."""
        values = {**lower.values, **self.values}
        for name, value in self.values.items():
            if name.startswith("extend-") and name in lower.values:
                values[name] = (*lower.values[name], *value)
        return Layer(values, {**lower.origins, **self.origins})

    def without(self, names: frozenset[str]) -> Layer:
        """The same without some keys."""
        return Layer({k: v for k, v in self.values.items() if k not in names}, self.origins)


NOTHING = Layer({}, {})


def file_in(folder: Path) -> Path | None:
    """The configuration file of a folder: ``dtypefix.toml``, or a ``pyproject.toml`` with our table.

    Raises:
        UserError: the folder has one that cannot be read.
    """
    own = folder / OWN_FILE
    if os.path.isfile(own):
        return own
    project = folder / PYPROJECT
    if os.path.isfile(project) and _holds_table(project):
        return project
    return None


def _holds_table(project: Path) -> bool:
    # Most projects have no such table: a search of the bytes saves parsing theirs.
    source = _bytes(project)
    return b"dtypefix" in source and "dtypefix" in _table(_parse(source, str(project)), "tool", str(project))


def read_file(path: Path) -> Layer:
    """The settings of a configuration file, those it extends below its own.

    Raises:
        UserError: a file cannot be read, is no TOML, extends itself, or holds a setting that is unknown or
            of the wrong type.
    """
    return _read_chain(path, ())


def read_inline(text: str, folder: Path) -> Layer:
    """The settings of one ``key = value`` of the command line, its paths relative to ``folder``.

    Raises:
        UserError: it is no TOML, or the setting is unknown or of the wrong type.
    """
    where = f"--config {text}"
    try:
        table = _parse(text.encode(), where)
    except UserError as error:
        raise UserError(f"{error}; a value is TOML, quotes and all: --config 'select = [\"core\"]'") from None
    if EXTEND in table:
        raise UserError(f"{where}: use --config FILE instead")
    return _checked(table, where, folder)


def _read_chain(path: Path, above: tuple[Path, ...]) -> Layer:
    real = Path(os.path.realpath(path))
    if real in above:
        raise UserError(f"{path}: extends itself, by way of {', '.join(str(each) for each in above)}")
    data = _parse(_bytes(path), str(path))
    # A file of another name than pyproject.toml is all ours, wherever it lies.
    table = _table(_table(data, "tool", str(path)), "dtypefix", str(path)) if path.name == PYPROJECT else data
    parent = table.pop(EXTEND, None)
    layer = _checked(table, str(path), path.parent)
    if parent is None:
        return layer
    if not isinstance(parent, str):
        raise UserError(f"{path}: extend takes one path, in quotes")
    lower = _absolute(path.parent, parent)
    if not os.path.isfile(lower):
        raise UserError(f"{path}: extend: there is no file {lower}")
    return layer.over(_read_chain(lower, (*above, real)))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def _parse(source: bytes, where: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(source.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{where}: not valid TOML: {error}") from None


def _table(data: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise UserError(f"{where}: {name} is a table")
    return table


def _checked(table: Mapping[str, Any], where: str, folder: Path) -> Layer:
    known = {name: about for name, _, about in declared()}
    values = {}
    for name, value in table.items():
        if name not in known:
            near = difflib.get_close_matches(name.replace("_", "-"), [*known, EXTEND], 1, 0.5)
            hint = f", did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
            raise UserError(f"{where}: unknown setting {name!r}{hint}")
        values[name] = _value(value, known[name], folder, f"{where}: {name}")
    return Layer(values, dict.fromkeys(values, where))


def _value(value: Any, about: About, folder: Path, where: str) -> Any:
    match about.kind:
        case Kind.FLAG if isinstance(value, bool):
            return value
        case Kind.PATH if isinstance(value, str) and value:
            return _absolute(folder, value)
        case Kind.ROOT if isinstance(value, str) and value:
            return value if "==" in value else str(_absolute(folder, value))
        case Kind.NAMES if _is_texts(value):
            return tuple(value)
        case Kind.PATTERNS if _is_texts(value):
            check(value, where)
            return tuple(value)
        case Kind.PATHS if _is_texts(value):
            return tuple(_absolute(folder, item) for item in value)
        case Kind.PACKS if _is_texts(value):
            return tuple(str(_absolute(folder, item)) if "/" in item else item for item in value)
        case Kind.NAMES_BY_PATTERN if isinstance(value, dict) and all(map(_is_texts, value.values())):
            check((pattern.removeprefix("!") for pattern in value), where)
            return {pattern: tuple(names) for pattern, names in value.items()}
    raise UserError(f"{where} takes a {about.kind.value}, for example {about.example}")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _absolute(folder: Path, text: str) -> Path:
    return Path(os.path.normpath(folder / Path(text).expanduser()))
