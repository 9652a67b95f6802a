"""A call of an operator with a contract, and what is known of its arguments.

It serves the rule ``kernel-argument-dtype``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dtypefix.analysis.contracts import Contract
from dtypefix.analysis.flow import Flow
from dtypefix.analysis.module import Module
from dtypefix.analysis.origins import Kind, Origin, Value, item_origins
from dtypefix.analysis.walking import walk
from dtypefix.findings import Level

LOOKS = frozenset({"dtype", "is_cpu", "is_cuda", "type"})


@dataclass(frozen=True, slots=True)
class Fault:
    """One argument, what is wrong with it, and the dtype expression that would put it right, if known."""

    argument: ast.expr
    level: Level
    message: str
    values: tuple[Value, ...]
    dtype: str | None = None
    reason: str = "which side is to be converted is for the caller to say"


@dataclass
class Bound:
    """A call with a contract: its arguments by name and what is known of their dtypes.

    ``siblings`` are the calls of the same operator in the same file, this one among them; ``known``
    gives the dtypes of values that are made alike everywhere, by the end of their path.
    """

    call: ast.Call
    contract: Contract
    flow: Flow
    roles: Mapping[str, Any]
    given: Mapping[str, ast.expr]
    siblings: Sequence[ast.Call] = ()
    known: Mapping[str, str] = field(default_factory=dict)

    def value(self, name: str) -> Value:
        """What is known of an argument's dtype."""
        return self.flow.value(self.given[name])

    @cached_property
    def tested(self) -> frozenset[str]:
        """Expressions whose dtype, or device, the function tests before the call, as text."""
        found = set()
        for node in walk(self.flow.node):
            if isinstance(node, ast.If | ast.IfExp | ast.Assert) and node.lineno <= self.call.lineno:
                for inner in walk(node.test):
                    if isinstance(inner, ast.Attribute) and inner.attr in LOOKS:
                        found.add(ast.unparse(inner.value).removesuffix(".device"))
        return frozenset(found)

    def is_tested(self, name: str) -> bool:
        """Whether the function looks at the dtype of an argument, or of what it is made from."""
        value = self.value(name)
        texts = {ast.unparse(n) for n in walk(self.given[name]) if isinstance(n, ast.Name | ast.Attribute)}
        texts |= {o.detail for o in item_origins(value)}
        return not texts.isdisjoint(self.tested)

    def real(self, name: str) -> list[Origin]:
        """The alternatives of an argument's dtype, ``None`` left out."""
        return [o for o in item_origins(self.value(name)) if o.kind is not Kind.NONE]

    def is_cache(self, origin: Origin) -> bool:
        """Whether a dtype is the one that the KV cache is stored in."""
        tail = origin.detail.partition("[")[0].rpartition(".")[2]
        if origin.kind is Kind.OUTPUT:
            return tail in self.roles["cache_calls"]
        if origin.kind is Kind.ITEM and tail in self.roles["cache_calls"]:
            return True
        return origin.foreign and tail in self.roles["cache_names"]

    def cached(self, name: str) -> bool:
        """Whether an argument certainly comes from the KV cache as it is stored."""
        real = self.real(name)
        return bool(real) and all(self.is_cache(o) for o in real)

    def plain(self, name: str) -> bool:
        """Whether the dtype of an argument is certainly decided out of sight, and not by the cache."""
        real = self.real(name)
        return bool(real) and all(
            o.foreign and o.kind is not Kind.OUTPUT and not self.is_cache(o) for o in real
        )


def groups(bound: Bound) -> Iterator[tuple[str, ...]]:
    """The groups of given arguments that must have one dtype."""
    for group in bound.contract.same:
        given = tuple(n for n in group if n in bound.given)
        if len(given) > 1:
            yield given


def root(expr: ast.expr) -> ast.expr:
    """The tensor that an expression reshapes: ``q`` for ``q.view(-1, 8)[0]``."""
    while True:
        if isinstance(expr, ast.Subscript):
            expr = expr.value
        elif isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
            expr = expr.func.value
        else:
            return expr


def wants(bound: Bound, one: str, two: str) -> str:
    """The contract of two arguments, in words."""
    return f"`{bound.contract.op}` wants one dtype for `{one}` and `{two}`"


def class_values(module: Module, name: str) -> Iterator[ast.expr]:
    """The values that classes of a file give an attribute in their body."""
    for cls in module.tree.body:
        for node in cls.body if isinstance(cls, ast.ClassDef) else ():
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name) and target.id == name:
                    yield node.value
