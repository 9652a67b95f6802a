"""The layers of a model that a parameter reaches in its own dtype, through the methods it is handed to."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from dtypefix.analysis.classes import ClassRef
from dtypefix.analysis.flow import Use
from dtypefix.analysis.module import FunctionNode
from dtypefix.analysis.witness import NoWitness, layers_at, owners_of
from dtypefix.findings import Evidence

_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class ReachedLayer:
    """A call of a layer with a value that nothing has cast.

    ``path`` leads from ``self`` to the layer, ``is_norm`` says that it is a norm, which keeps the
    dtype, and ``steps`` the methods that the value was handed to on the way. ``call`` stands in the
    file of the function asked about.
    """

    call: ast.Call
    path: tuple[str, ...]
    is_norm: bool
    steps: tuple[Evidence, ...] = ()


def reached_layers(
    cls: ClassRef, function: FunctionNode, parameter: str, not_into: Collection[str] = ()
) -> Iterator[ReachedLayer]:
    """The layers that ``parameter`` reaches uncast on some path, in source order.

    Args:
        cls: the class whose method ``function`` is.
        function: the method.
        parameter: the name of one of its parameters.
        not_into: names of methods that answer for themselves and are not looked into.
    """
    yield from _reached(cls, function, parameter, frozenset(not_into), 0)


def _reached(
    cls: ClassRef, function: FunctionNode, parameter: str, not_into: Collection[str], depth: int
) -> Iterator[ReachedLayer]:
    for use in cls.project.flows(cls.module).function(function).uses(parameter):
        path = tuple(use.callee.split(".")[1:])
        if not isinstance(use.call, ast.Call) or not use.callee.startswith("self.") or path[-1] in not_into:
            continue
        owners = owners_of(cls, path[:-1])
        method = owners[0].method(path[-1]) if not isinstance(owners, NoWitness) and owners else None
        if method is None:
            layers = layers_at(cls, path)
            names = [path[-1]] if isinstance(layers, NoWitness) else [layer.class_name for layer in layers]
            yield ReachedLayer(use.call, path, any("norm" in name.lower() for name in names))
            continue
        owner, handed_to = method
        name = _parameter_of(use, handed_to)
        if name is None or depth >= _DEEPEST:
            continue
        step = Evidence(cls.module.path, use.call.lineno, f"it is handed to {owner.node.name}.{path[-1]}")
        for inner in _reached(owner, handed_to, name, not_into, depth + 1):
            here = inner.call if owner.module is cls.module else use.call
            yield replace(inner, call=here, path=(*path[:-1], *inner.path), steps=(step, *inner.steps))


def _parameter_of(use: Use, function: FunctionNode) -> str | None:
    """The parameter of a method that an argument of a call of it fills."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)][1:]
    if use.position is not None:
        return names[use.position] if use.position < len(names) else None
    return use.keyword
