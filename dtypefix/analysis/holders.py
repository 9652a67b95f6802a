"""What attributes hold: the class under a dotted path, and the calls that built its modules."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dtypefix.analysis.classes import Construction

if TYPE_CHECKING:
    from dtypefix.analysis.classes import ClassRef

_CONTAINERS = frozenset({"torch.nn.ModuleList", "torch.nn.Sequential"})


def constructions(owner: ClassRef, part: str) -> list[Construction] | None:
    """What built an attribute, or for ``layers[]`` the modules in it."""
    name, bracket, _ = part.partition("[")
    built = owner.constructions(name)
    if built is None:
        return None if bracket else _by_factory(owner, name)
    if not bracket:
        return built
    found: list[Construction] = []
    for container in built:
        if container.dotted not in _CONTAINERS or not container.call.args:
            return None
        held = container.call.args[0]
        items = [held.elt] if isinstance(held, (ast.ListComp, ast.GeneratorExp)) else []
        if isinstance(held, (ast.List, ast.Tuple)):
            items = list(held.elts)
        for item in items:
            if not isinstance(item, ast.Call):
                return None
            cls = owner.project.resolve_class(container.module, item.func)
            dotted = cls.dotted if cls else owner.project.qualified(container.module, item.func)
            found.append(Construction(container.module, item, cls, dotted))
    return found or None


def _by_factory(owner: ClassRef, name: str) -> list[Construction] | None:
    """The calls of factory functions that build an attribute, where the class they give is not clear."""
    found: list[Construction] = []
    for assigned in owner.attribute_values(name):
        value = assigned.value
        if isinstance(value, ast.Constant) and value.value is None:
            continue
        dotted = (
            owner.project.qualified(assigned.owner.module, value.func)
            if isinstance(value, ast.Call)
            else None
        )
        if dotted is None or not isinstance(value, ast.Call):
            return None
        found.append(Construction(assigned.owner.module, value, None, dotted))
    return found or None


def class_at(owner: ClassRef | None, parts: Sequence[str]) -> ClassRef | None:
    """The class of ``self.a.b`` from the class of ``self``, when every step builds one class."""
    for part in parts:
        if owner is None:
            return None
        built = constructions(owner, part)
        classes = {c.cls.key: c.cls for c in built or () if c.cls is not None}
        if built is None or len(classes) != 1 or any(c.cls is None for c in built):
            return None
        owner = next(iter(classes.values()))
    return owner
