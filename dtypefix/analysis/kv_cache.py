"""What a class and a function know about the KV cache's dtype, from a pack's ``kv_cache`` table."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from dtypefix.analysis.classes import ClassRef
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.project import Project
from dtypefix.analysis.walking import walk


class KvCacheNames:
    """Questions about names, answered for one module."""

    def __init__(self, module: Module, project: Project, table: Mapping[str, Any]) -> None:
        self.module = module
        self.project = project
        self.table = table

    def is_global(self, node: ast.AST) -> bool:
        """Whether an expression reads the dtype configured for the whole model."""
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            return False
        text = _path(node)
        return any(text == end or text.endswith("." + end) for end in self.table["global"])

    def has_option(self, owner: str, option: str) -> bool:
        """Whether a configuration class declares an option; taken to be so where it is out of reach."""
        found = self.project.definition(owner)
        if found is None or not isinstance(found.node, ast.ClassDef):
            return True
        return any(
            isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and n.target.id == option
            for n in found.node.body
        )

    def skips_layers(self) -> bool:
        """Whether layers of one model can differ in their cache dtype."""
        return self.has_option(self.table["skip_owner"], self.table["skip_option"])

    def has_plain_formats(self) -> bool:
        """Whether the type of the setting lists an unquantised format besides "auto"."""
        found = self.project.definition(self.table["formats"])
        if found is None:
            return False
        return any(
            isinstance(n, ast.Constant) and n.value in self.table["plain_formats"] for n in walk(found.node)
        )

    def knows_spec(self, node: ast.AST) -> bool:
        """Whether code reads a field that tells the cache dtype of a group of layers."""
        return mentions(node, self.table["spec_fields"])

    def spec_of(self, function: FunctionNode, cls: ClassRef | None) -> str | None:
        """The expression that holds the specification of the layers at hand, if the function has one.

        A parameter of the function, or what the constructor of its class was given and keeps.
        """
        for name in parameters(function):
            if name in self.table["specs"]:
                return name
        if cls is None or not parameters(function) or parameters(function)[0] != "self":
            return None
        made = cls.method("__init__")
        if made is not None:
            for name in parameters(made[1]):
                if name in self.table["specs"]:
                    return f"self.{name}"
        return None

    def resolved(self, cls: ClassRef) -> tuple[str, ast.expr, Module] | None:
        """The attribute in which a class keeps the dtype resolved for itself, and its first value."""
        for name in self.table["resolved"]:
            value = cls.defines(name)
            if value is not None and value.method is not None:
                return name, value.value, value.owner.module
        return None


def _path(node: ast.expr) -> str:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([*([node.id] if isinstance(node, ast.Name) else []), *reversed(names)])


def parameters(function: FunctionNode) -> list[str]:
    """The names of a function's parameters."""
    arguments = function.args
    return [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def mentions(node: ast.AST, names: list[str]) -> bool:
    """Whether code reads an attribute, a name or a string (as ``getattr`` takes it) of these names."""
    for inner in walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr in names:
            return True
        if isinstance(inner, ast.Name) and inner.id in names:
            return True
        if isinstance(inner, ast.Constant) and inner.value in names:
            return True
    return False


def compares_with(node: ast.AST, constant: str) -> bool:
    """Whether code compares anything with a string."""
    return any(
        isinstance(n, ast.Compare)
        and any(isinstance(c, ast.Constant) and c.value == constant for c in (n.left, *n.comparators))
        for n in walk(node)
    )


def stores(node: ast.AST, names: KvCacheNames) -> bool:
    """Whether code sets the dtype of the whole model, as the code that decides it does."""
    ends = {end.rpartition(".")[2] for end in names.table["global"]}
    return any(
        isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and n.attr in ends for n in walk(node)
    )


def keyword_values(call: ast.Call, names: list[str]) -> Iterator[ast.keyword]:
    """The keywords of a call that have one of these names."""
    return (k for k in call.keywords if k.arg in names)
