"""The facts about a code base that the analysis needs, loaded from a pack's ``knowledge/*.toml``.

The engine itself knows torch only. A pack says which methods run in the build scope
(``roles.toml``), which expressions name a dtype source (``sources.toml``), what calls outside torch
return (``ops.toml``) and what layer classes are like (``layers.toml``); tables that a rule has to
itself are read with :meth:`Knowledge.table`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dtypefix.analysis.origins import Kind, Origin
from dtypefix.errors import UserError

_SOURCES = {
    "model": Kind.MODEL,
    "ambient": Kind.AMBIENT,
    "checkpoint": Kind.CHECKPOINT,
    "kv_cache": Kind.KV_CACHE,
    "platform_fp8": Kind.PLATFORM_FP8,
}


@dataclass(frozen=True, slots=True)
class Op:
    """What a call returns: one entry, or one for each element of a tuple."""

    name: str
    returns: str | tuple[str, ...]
    quantises: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """What is known about a layer class; ``kind`` is ``linear``, ``norm``, ``convolution`` and the like."""

    name: str
    kind: str
    output: str | tuple[str, ...]
    params_dtype: bool
    quantisable: bool


def _origin(source: str, detail: str = "") -> Origin:
    kind, _, extra = source.partition(":")
    if kind not in _SOURCES:
        raise UserError(f"knowledge: unknown dtype source {source!r}; use one of {', '.join(_SOURCES)}")
    if kind == "model":
        extra = extra or "config"
    return Origin(_SOURCES[kind], extra or detail)


def _returns(value: Any) -> str | tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else str(value)


def _tables(folder: Path) -> Iterator[Mapping[str, Any]]:
    for file in sorted(folder.glob("*.toml")) if folder.is_dir() else [folder]:
        try:
            yield tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{file}: not valid TOML: {error}") from error
        except OSError as error:
            raise UserError(f"{file}: cannot be read: {error.strerror}") from None


class Knowledge:
    """The merged tables of a pack. Lists of rows are concatenated, the last row of a name wins."""

    def __init__(self, tables: Iterable[Mapping[str, Any]] = ()) -> None:
        self._tables: dict[str, Any] = {}
        for table in tables:
            self._merge(table)

    @classmethod
    def load(cls, folder: Path, extra: Iterable[Mapping[str, Any]] = ()) -> Knowledge:
        """Read every ``*.toml`` of a folder, then lay ``extra`` tables over them.

        Raises:
            UserError: a file is not valid TOML.
        """
        return cls([*_tables(folder), *extra])

    @classmethod
    def merged(cls, folders: Iterable[Path]) -> Knowledge:
        """The tables of several folders or files, later ones over earlier ones.

        Raises:
            UserError: a file is not valid TOML.
        """
        return cls(table for folder in folders for table in _tables(folder))

    def _merge(self, table: Mapping[str, Any]) -> None:
        for key, value in table.items():
            known = self._tables.get(key)
            if isinstance(known, list) and isinstance(value, list):
                self._tables[key] = [*known, *value]
            elif isinstance(known, dict) and isinstance(value, Mapping):
                merged = dict(known)
                for name, item in value.items():
                    old = merged.get(name)
                    both_lists = isinstance(old, list) and isinstance(item, list)
                    merged[name] = [*old, *item] if both_lists and old is not None else item
                self._tables[key] = merged
            else:
                self._tables[key] = value

    def table(self, name: str) -> Any:
        """A table or list of rows by its TOML name, an empty list when no file has it."""
        return self._tables.get(name, [])

    def _group(self, table: str, key: str) -> frozenset[str]:
        group = self._tables.get(table, {})
        return frozenset(group.get(key, ()))

    @cached_property
    def build_names(self) -> frozenset[str]:
        """Methods that run inside the build scope only."""
        return self._group("scopes", "build")

    @cached_property
    def both_names(self) -> frozenset[str]:
        """Methods that run inside and outside the build scope."""
        return self._group("scopes", "both")

    @cached_property
    def outside_names(self) -> frozenset[str]:
        """Methods that run outside the build scope."""
        return self._group("scopes", "outside")

    @cached_property
    def outside_prefixes(self) -> tuple[str, ...]:
        """Beginnings of names of methods that run outside the build scope."""
        return tuple(self._group("scopes", "outside_prefixes"))

    @cached_property
    def outside_decorators(self) -> frozenset[str]:
        """Last components of decorators whose functions are kernels."""
        return self._group("scopes", "outside_decorators")

    @cached_property
    def kernel_registrations(self) -> dict[str, tuple[str, ...]]:
        """Registering calls by the last component of their name, with the keywords that take kernels."""
        return {row["name"]: tuple(row["keywords"]) for row in self.table("kernel_registration")}

    @cached_property
    def unbuilt_modules(self) -> tuple[str, ...]:
        """Packages whose classes are not constructed with the model."""
        return tuple(self._group("scopes", "unbuilt_modules"))

    @cached_property
    def built_suffixes(self) -> tuple[str, ...]:
        """Ends of class names in those packages that are constructed with the model all the same."""
        return tuple(self._group("scopes", "built_class_suffixes"))

    @cached_property
    def default_dtype_managers(self) -> frozenset[str]:
        """Context managers that set the default dtype to their first argument."""
        return self._group("default_dtype", "context_managers")

    @cached_property
    def default_dtype_setters(self) -> frozenset[str]:
        """Functions that set the default dtype to their first argument."""
        return self._group("default_dtype", "functions")

    @cached_property
    def paths(self) -> dict[str, Origin]:
        """Ends of dotted paths, one or two components, that name a source."""
        found: dict[str, Origin] = {}
        for row in self.table("path"):
            origin = _origin(row["source"])
            for owner in row.get("of", ("",)):
                found[f"{owner}.{row['suffix']}" if owner else row["suffix"]] = origin
        return found

    @cached_property
    def names(self) -> dict[str, Origin]:
        """Parameters that by convention carry a known source."""
        return {row["name"]: _origin(row["source"]) for row in self.table("name")}

    @cached_property
    def calls(self) -> dict[str, Origin]:
        """Calls that return a dtype, by the last component of their name."""
        return {row["name"]: _origin(row["source"]) for row in self.table("call")}

    @cached_property
    def ops(self) -> dict[str, Op]:
        """Calls outside torch with known result dtypes, by the last component of their name."""
        return {
            row["name"]: Op(row["name"], _returns(row["returns"]), bool(row.get("quantises")))
            for row in self.table("op")
        }

    @cached_property
    def layers(self) -> dict[str, Layer]:
        """Layer classes by simple name."""
        return {
            row["name"]: Layer(
                row["name"],
                row["kind"],
                _returns(row["output"]),
                bool(row["params_dtype"]),
                bool(row["quantisable"]),
            )
            for row in self.table("layer")
        }

    @cached_property
    def checkpoint_attributes(self) -> frozenset[str]:
        """Attributes that hold a configuration which came with the checkpoint."""
        return self._group("checkpoint_config", "attributes")

    @cached_property
    def checkpoint_calls(self) -> frozenset[str]:
        """Methods that return a configuration which came with the checkpoint."""
        return self._group("checkpoint_config", "calls")

    @cached_property
    def checkpoint_modules(self) -> tuple[str, ...]:
        """Packages whose ``*Config`` classes come with the checkpoint."""
        return tuple(self._group("checkpoint_config", "modules"))

    @cached_property
    def compute_attributes(self) -> frozenset[str]:
        """Attributes that hold the dtype a layer computes in."""
        return self._group("layer_attributes", "compute")

    @cached_property
    def weight_attributes(self) -> frozenset[str]:
        """Attributes that hold a layer's stored weight."""
        return self._group("layer_attributes", "weights")
