"""The tiny models and cases that ship as data, and what a tree's own model registry says."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

REGISTRY = Path("vllm", "model_executor", "models", "registry.py")
_REMOVED = "-"


@cache
def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(
        resources.files("dtypefix.validate.configs").joinpath(f"{name}.toml").read_text("utf-8")
    )


def model_config(name: str) -> dict[str, Any]:
    """The fields of a tiny model's ``config.json``.

    Raises:
        KeyError: no entry of that name.
    """
    entry = dict(_table("models")[name])
    parent = entry.pop("extends", None)
    fields = (model_config(parent) if parent else {}) | entry
    return {key: value for key, value in fields.items() if value != _REMOVED}


def drafter_cases() -> list[dict[str, Any]]:
    """Every drafter case, as the model probe takes it."""
    return [dict(case) for case in _table("drafters")["case"]]


def schemes() -> list[dict[str, Any]]:
    """Every quantisation scheme, as the flip and platform probes take it."""
    return [dict(scheme) for scheme in _table("schemes")["scheme"]]


def scheme_config(name: str) -> dict[str, Any]:
    """The ``quantization_config`` of a scheme.

    Raises:
        LookupError: no scheme of that name, or one that quantises while it loads.
    """
    for scheme in schemes():
        if scheme["name"] == name and "quantization_config" in scheme:
            return dict(scheme["quantization_config"])
    raise LookupError(name)


@dataclass(frozen=True, slots=True)
class Registered:
    """One architecture of a tree's model registry: the class it names and the module that gives it."""

    architecture: str
    module: str
    class_name: str


def registry(tree: Path) -> Iterator[Registered]:
    """The architectures a tree knows, read from the registry's dictionaries without importing it."""
    file = tree / REGISTRY
    if not file.is_file():
        return
    for node in ast.walk(ast.parse(file.read_bytes())):
        if not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            match key, value:
                case (
                    ast.Constant(value=str(architecture)),
                    ast.Tuple(elts=[ast.Constant(value=str(module)), ast.Constant(value=str(name))]),
                ):
                    full = module if "." in module else f"vllm.model_executor.models.{module}"
                    yield Registered(architecture, full, name)


def module_name(path: str) -> str:
    """The dotted name of a file given relative to the tree's root."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def architectures_of(tree: Path, path: str) -> list[Registered]:
    """The registered classes that a file defines, its module in place of a package that picks by platform."""
    module = module_name(path)
    defined = {
        node.name for node in ast.parse((tree / path).read_bytes()).body if isinstance(node, ast.ClassDef)
    }
    return [
        Registered(entry.architecture, module, entry.class_name)
        for entry in registry(tree)
        if entry.class_name in defined and (entry.module == module or module.startswith(entry.module + "."))
    ]
