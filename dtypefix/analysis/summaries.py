"""What a call of a function within reach returns: its result, the parameters replaced by arguments."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtypefix.analysis.making import Args
from dtypefix.analysis.mixing import Origins, mix_all
from dtypefix.analysis.module import FunctionNode
from dtypefix.analysis.origins import (
    CLOSED,
    UNKNOWN,
    Form,
    Kind,
    Origin,
    Step,
    Value,
    Verb,
    item_origins,
    join_all,
)

if TYPE_CHECKING:
    from dtypefix.analysis.flow import Flow
    from dtypefix.analysis.resolve import Resolver

ANSWERS = CLOSED | {Kind.KV_CACHE, Kind.AMBIENT, Kind.SCALAR, Kind.NONE}
"""Kinds that mean the same wherever they are read."""
_INPUTS = ("hidden_states", "x", "input", "input_", "inputs", "query", "q")


@dataclass(frozen=True, slots=True)
class Callee:
    """A function and its flow; ``holder`` is the path of the object it is a method of, for the caller."""

    flow: Flow
    node: FunctionNode
    bound: bool = False
    holder: str = ""


@dataclass(frozen=True, slots=True)
class Calling:
    """One call in a flow, and the origin that stands for its result (or for one element of it)."""

    resolver: Resolver
    flow: Flow
    call: ast.Call
    origin: Origin

    def value(self, expr: ast.expr) -> Value:
        """An expression of the call, looked into."""
        return self.resolver.resolve(self.flow.plain(expr), self.flow)

    def arguments(self) -> Args:
        """The arguments; a lone tensor given by keyword counts as the first."""
        positional = [self.value(a) for a in self.call.args if not isinstance(a, ast.Starred)]
        keywords = {k.arg: self.value(k.value) for k in self.call.keywords if k.arg}
        if not positional:
            positional = [keywords[name] for name in _INPUTS if name in keywords][:1]
        elif "hidden_states" not in keywords:
            keywords["hidden_states"] = positional[0]
        return Args(self.call, positional, keywords, self.flow.default_dtype)

    def argument(self, name: str, callee: Callee) -> Origins:
        """The origins of what the call gives for a parameter; empty when that cannot be told."""
        if any(isinstance(a, ast.Starred) for a in self.call.args):
            return frozenset()
        named = [a.arg for a in (*callee.node.args.posonlyargs, *callee.node.args.args)][callee.bound :]
        given: ast.expr | None = None
        if name in named and named.index(name) < len(self.call.args):
            given = self.call.args[named.index(name)]
        for keyword in self.call.keywords:
            if keyword.arg == name:
                given = keyword.value
        if given is not None:
            return item_origins(self.value(given))
        return item_origins(_default_of(name, callee))


def returned(callee: Callee, calling: Calling) -> Value | None:
    """What the call returns, or None when the function does not tell (it yields, recurses, is async)."""
    inner, node, origin = callee.flow, callee.node, calling.origin
    if inner.running or isinstance(node, ast.AsyncFunctionDef):
        return None
    result = join_all(r.value for r in inner.returns())
    if result is None or any(isinstance(n, ast.Yield | ast.YieldFrom) for n in inner.values):
        return None
    element = origin.at[2]
    if element and result.form is Form.TUPLE:
        if element > len(result.elements):
            return None
        result = result.elements[element - 1]
    elif element and result.form is not Form.TENSOR:
        return None
    value = _substituted(result, callee, calling, origin)
    return Value(
        value.form,
        value.origins,
        value.elements,
        "",
        value.zero_dim,
        (Step(Verb.INSIDE, calling.call, value.steps),),
    )


def _substituted(value: Value, callee: Callee, calling: Calling, origin: Origin) -> Value:
    if value.form is Form.TUPLE:
        elements = tuple(
            _substituted(
                one, callee, calling, Origin(origin.kind, origin.detail, (), (*origin.at[:2], i + 1))
            )
            for i, one in enumerate(value.elements)
        )
        return Value(Form.TUPLE, elements=elements)
    origins: set[Origin] = set()
    for one in value.origins:
        origins |= _seen_from_caller(one, callee, calling, origin)
    if callee.flow.module is not calling.flow.module:
        value = in_file(value, callee.flow.module.path)
    return Value(value.form, frozenset(origins), (), "", value.zero_dim, value.steps)


def _seen_from_caller(one: Origin, callee: Callee, calling: Calling, origin: Origin) -> Origins:
    if one.kind is Kind.PARAMETER:
        return calling.argument(one.detail, callee) or frozenset({origin})
    if one.kind is Kind.PROMOTED:
        parts = [Value(Form.TENSOR, _seen_from_caller(p, callee, calling, origin)) for p in one.parts]
        return mix_all(parts, calling.flow.default_dtype())
    if one.kind in ANSWERS or (
        one.kind is Kind.ATTRIBUTE and one.detail.startswith("self.") and callee.holder
    ):
        return frozenset({moved(one, callee.holder or "self")})
    return frozenset({origin})


def _default_of(name: str, callee: Callee) -> Value:
    arguments = callee.node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    for argument, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
        if argument.arg == name:
            return callee.flow.plain(default)
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if argument.arg == name and keyword_default is not None:
            return callee.flow.plain(keyword_default)
    return UNKNOWN


def moved(origin: Origin, prefix: str) -> Origin:
    """A layer of an object seen from the object that holds it: ``self.fc`` becomes ``self.model.fc``."""
    if origin.kind in (Kind.LAYER_COMPUTE, Kind.LAYER_WEIGHT, Kind.ATTRIBUTE) and origin.detail.startswith(
        "self"
    ):
        return Origin(origin.kind, prefix + origin.detail.removeprefix("self"))
    return origin


def in_file(value: Value, path: str) -> Value:
    """The value with its steps marked as standing in another file."""

    def marked(step: Step) -> Step:
        before = tuple(marked(s) for s in step.before)
        through = tuple(marked(s) for s in step.through)
        return Step(step.verb, step.node, before, step.name, step.path or path, through)

    steps = tuple(marked(s) for s in value.steps)
    return Value(value.form, value.origins, value.elements, value.path, value.zero_dim, steps)
