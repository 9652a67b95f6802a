"""The ways in which an argument can break an operator's contract, each as one question.

They serve the rule ``kernel-argument-dtype`` and are apart from it only for their size.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dtypefix.analysis.contracts import Contract
from dtypefix.analysis.flow import Flow
from dtypefix.analysis.module import Module
from dtypefix.analysis.origins import Form, Kind, Origin, Value, item_origins
from dtypefix.findings import Level

CLAIM = "supported_kv_cache_dtypes"
LOOKS = frozenset({"dtype", "is_cpu", "is_cuda", "type"})
FLOATING = frozenset({"float16", "bfloat16", "float32", "float64"})


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
    """A call with a contract: its arguments by name and what is known of their dtypes."""

    call: ast.Call
    contract: Contract
    flow: Flow
    roles: Mapping[str, Any]
    given: Mapping[str, ast.expr]

    def value(self, name: str) -> Value:
        """What is known of an argument's dtype."""
        return self.flow.value(self.given[name])

    @cached_property
    def tested(self) -> frozenset[str]:
        """Expressions whose dtype, or device, the function tests before the call, as text."""
        found = set()
        for node in ast.walk(self.flow.node):
            if isinstance(node, ast.If | ast.IfExp | ast.Assert) and node.lineno <= self.call.lineno:
                for inner in ast.walk(node.test):
                    if isinstance(inner, ast.Attribute) and inner.attr in LOOKS:
                        found.add(ast.unparse(inner.value).removesuffix(".device"))
        return frozenset(found)

    def is_tested(self, name: str) -> bool:
        """Whether the function looks at the dtype of an argument, or of what it is made from."""
        value = self.value(name)
        texts = {
            ast.unparse(n) for n in ast.walk(self.given[name]) if isinstance(n, ast.Name | ast.Attribute)
        }
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


def faults(bound: Bound) -> Iterator[Fault]:
    """What is wrong with the arguments of a call, the surest first."""
    seen: set[int] = set()
    for question in (_forbidden, _unequal, _cache, _half_converted, _untied, _strict, _roles):
        for fault in question(bound):
            if id(fault.argument) not in seen:
                seen.add(id(fault.argument))
                yield fault


def _forbidden(bound: Bound) -> Iterator[Fault]:
    """A dtype that is known, and not among those that the operator takes."""
    for name, allowed in bound.contract.allowed(bound.given).items():
        value = bound.value(name)
        real = bound.real(name)
        if value.form is not Form.TENSOR or not real or any(o.kind is not Kind.LITERAL for o in real):
            continue
        if all(o.detail not in allowed for o in real):
            yield Fault(
                bound.given[name],
                "error",
                f"`{bound.contract.op}` takes {_either(allowed)} for `{name}`, which is {value.describe()}",
                (value,),
                f"torch.{allowed[0]}" if len(allowed) == 1 else None,
                "more than one dtype would do",
            )


def _unequal(bound: Bound) -> Iterator[Fault]:
    """Two arguments that must have one dtype and certainly have two."""
    for group in _groups(bound):
        known = [n for n in group if bound.value(n).literal and bound.value(n).form is Form.TENSOR]
        for name in known[1:]:
            first = bound.value(known[0])
            if bound.value(name).literal != first.literal:
                yield Fault(
                    bound.given[name],
                    "error",
                    f"{_wants(bound, known[0], name)}: "
                    f"{first.describe()} meets {bound.value(name).describe()}",
                    (first, bound.value(name)),
                )


def _cache(bound: Bound) -> Iterator[Fault]:
    """Query and cache in one call, one as it is stored and the other as it was computed."""
    if not bound.contract.attention or _handled(bound):
        return
    for group in _groups(bound):
        if any(bound.is_tested(n) for n in group):
            continue
        cached = [n for n in group if bound.cached(n)]
        if cached:
            other = next((n for n in group if bound.plain(n) or _left_out(bound, n)), None)
            if other is not None:
                yield Fault(
                    bound.given[cached[0]],
                    "warning",
                    f"{_wants(bound, other, cached[0])}: the KV cache can be stored in another dtype than "
                    f"that of `{ast.unparse(bound.given[other])}`",
                    (bound.value(other), bound.value(cached[0])),
                )
            continue
        converted = [n for n in group if any(o.kind is Kind.KV_CACHE for o in bound.real(n))]
        for name in group:
            if converted and bound.plain(name):
                yield Fault(
                    bound.given[name],
                    "warning",
                    f"{_wants(bound, converted[0], name)}: only the former is converted to the cache's",
                    (bound.value(converted[0]), bound.value(name)),
                    f"{ast.unparse(_root(bound.given[converted[0]]))}.dtype",
                )


def _handled(bound: Bound) -> bool:
    """Whether an 8-bit cache is refused here, or the query's own scale is given, so that it was quantised."""
    if any(name in bound.given for name in bound.roles["query_scales"]):
        return True
    functions: list[ast.AST] = [bound.flow.node]
    cls = bound.flow.module.enclosing_class(bound.call)
    if cls is not None:
        functions += [n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    for function in functions:
        for node in ast.walk(function):
            if isinstance(node, ast.If) and "kv_cache_dtype" in ast.unparse(node.test):
                if any(isinstance(s, ast.Raise) for s in node.body):
                    return True
    return _unclaimed(bound)


def _unclaimed(bound: Bound) -> bool:
    """Whether the backends in the files of the class say which formats they take, and none has 8 bits."""
    for module in _files(bound):
        formats = [
            c.value
            for value in _class_values(module, CLAIM)
            for c in ast.walk(value)
            if isinstance(c, ast.Constant)
        ]
        if formats:
            return not any(str(f).startswith(("fp8", "int8", "nvfp4")) for f in formats)
    return False


def _files(bound: Bound) -> Iterator[Module]:
    """The file of a call, then those of the bases of its class."""
    module, project = bound.flow.module, bound.flow.flows.project
    yield module
    cls = module.enclosing_class(bound.call)
    if cls is not None and project is not None:
        for base in project.class_of(module, cls).mro:
            if base.module is not module:
                yield base.module


def _class_values(module: Module, name: str) -> Iterator[ast.expr]:
    """The values that classes of a file give an attribute in their body."""
    for cls in module.tree.body:
        for node in cls.body if isinstance(cls, ast.ClassDef) else ():
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name) and target.id == name:
                    yield node.value


def _left_out(bound: Bound, name: str) -> bool:
    """Whether one alternative is converted to the cache's dtype and another, a parameter, nowhere is."""
    real = bound.real(name)
    if not any(o.kind is Kind.KV_CACHE for o in real):
        return False
    for origin in real:
        if origin.kind is Kind.PARAMETER and not bound.is_cache(origin):
            if not _converts(bound.flow.node, origin.detail):
                return True
    return False


def _converts(function: ast.AST, name: str) -> bool:
    """Whether a function casts the variable of a name."""
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in ("to", "type", "view")
        and isinstance(n.func.value, ast.Name)
        and n.func.value.id == name
        and any("dtype" in ast.unparse(a) for a in (*n.args, *(k.value for k in n.keywords)))
        for n in ast.walk(function)
    )


def _half_converted(bound: Bound) -> Iterator[Fault]:
    """One argument of a group is cast to a dtype written here, another is left as it came."""
    for group in _groups(bound):
        cast = [
            n
            for n in group
            if bound.value(n).literal in FLOATING
            and bound.flow.casts(bound.given[n])
            and not bound.is_tested(n)
        ]
        for name in group:
            if cast and bound.plain(name) and not bound.is_tested(name):
                yield Fault(
                    bound.given[name],
                    "warning",
                    f"{_wants(bound, cast[0], name)}: the former is cast to "
                    f"{bound.value(cast[0]).describe()}, the latter stays as it comes",
                    (bound.value(cast[0]), bound.value(name)),
                    f"torch.{bound.value(cast[0]).literal}",
                )


def _untied(bound: Bound) -> Iterator[Fault]:
    """One pair of arguments is brought to one dtype in the call, its twin pair is not."""
    groups = list(_groups(bound))
    tied = [g for g in groups if len(g) > 1 and any(_ties(bound, n) for n in g)]
    if not tied:
        return
    for group in groups:
        if group in tied or len(group) < 2 or any(bound.is_tested(n) or not _open(bound, n) for n in group):
            continue
        one, two = group[0], group[1]
        if not bound.value(one).origins & bound.value(two).origins:
            yield Fault(
                bound.given[two],
                "warning",
                f"{_wants(bound, one, two)}, as for `{tied[0][0]}` and "
                f"`{tied[0][1]}`, but only the latter two are brought to one",
                (bound.value(one), bound.value(two)),
            )


def _ties(bound: Bound, name: str) -> bool:
    return any(
        isinstance(a, ast.Attribute) and a.attr == "dtype"
        for cast in bound.flow.casts(bound.given[name])
        if any(cast is n for n in ast.walk(bound.given[name]))
        for a in (*cast.args, *(k.value for k in cast.keywords))
    )


def _open(bound: Bound, name: str) -> bool:
    real = bound.real(name)
    return bool(real) and all(o.foreign for o in real)


def _strict(bound: Bound) -> Iterator[Fault]:
    """An argument that callers are known to hand over in another dtype, and nothing looks at it."""
    for name, allowed in bound.contract.allowed(bound.given).items():
        if name not in bound.contract.strict or bound.is_tested(name):
            continue
        value = bound.value(name)
        real = bound.real(name)
        if real and all(o.kind is Kind.MODEL or (o.foreign and o.kind is not Kind.OUTPUT) for o in real):
            if len(allowed) == 1 and not _model_dtypes_are(bound, allowed):
                yield Fault(
                    bound.given[name],
                    "warning",
                    f"`{bound.contract.op}` takes only {_either(allowed)} for `{name}`: {bound.contract.why}",
                    (value,),
                    f"torch.{allowed[0]}",
                )


def _model_dtypes_are(bound: Bound, allowed: tuple[str, ...]) -> bool:
    """Whether the backends of the file say which model dtypes they take, and all of these are allowed."""
    values = _class_values(bound.flow.module, "supported_dtypes")
    found = {n.attr for value in values for n in ast.walk(value) if isinstance(n, ast.Attribute)}
    found -= {"dtype"}
    return bool(found) and found <= set(allowed)


def _roles(bound: Bound) -> Iterator[Fault]:
    """Float32 router weights in a group with activations."""
    for group in _groups(bound):
        tokens = [n for n in group if _named(bound, n, "activations")]
        for name in group:
            if tokens and _named(bound, name, "float32") and not bound.is_tested(name):
                yield Fault(
                    bound.given[name],
                    "warning",
                    f"{_wants(bound, tokens[0], name)}: router weights are float32, activations have the "
                    "model dtype",
                    (bound.value(tokens[0]), bound.value(name)),
                    f"{ast.unparse(_root(bound.given[tokens[0]]))}.dtype",
                )


def _named(bound: Bound, name: str, role: str) -> bool:
    real = bound.real(name)
    return bool(real) and all(o.foreign and o.detail.rpartition(".")[2] in bound.roles[role] for o in real)


def _groups(bound: Bound) -> Iterator[tuple[str, ...]]:
    for group in bound.contract.same:
        given = tuple(n for n in group if n in bound.given)
        if len(given) > 1:
            yield given


def _root(expr: ast.expr) -> ast.expr:
    """The tensor that an expression reshapes: ``q`` for ``q.view(-1, 8)[0]``."""
    while True:
        if isinstance(expr, ast.Subscript):
            expr = expr.value
        elif isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
            expr = expr.func.value
        else:
            return expr


def _wants(bound: Bound, one: str, two: str) -> str:
    return f"`{bound.contract.op}` wants one dtype for `{one}` and `{two}`"


def _either(dtypes: tuple[str, ...]) -> str:
    return " or ".join(f"`torch.{d}`" for d in dtypes)
