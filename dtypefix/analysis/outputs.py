"""What a function gives back: upcasts and how they are undone, placeholders, real and fake kernels."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dtypefix.analysis.flow import Flow, Return
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import Form, Kind, Value, Verb
from dtypefix.analysis.scopes import last_name

OUTPUT_DTYPES = ("dtype", "out_dtype", "output_dtype")
ALLOCATIONS = frozenset({"empty", "zeros", "empty_like", "zeros_like", "new_empty", "new_zeros"})
_UPCAST = re.compile(r"\.float\(\)|\.to\((dtype=)?torch\.float(32)?\)|, torch\.float32\)")
_OUTPUT = re.compile(r"(^|_)(out|output|o)(_|$)|result")
_QUANTISED = frozenset({"int8", "uint8", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "fp8"})


@dataclass(frozen=True, slots=True)
class Placeholder:
    """``name`` is the result of ``made`` on one arm and the empty tensor ``empty`` on the other."""

    name: str
    made: ast.Call
    empty: ast.Call
    dtype: ast.Attribute


def parts(value: Value) -> tuple[Value, ...]:
    """The elements of a returned tuple, or the one value."""
    return value.elements if value.form is Form.TUPLE else (value,)


def is_upcast(value: Value) -> bool:
    """Whether a tensor is certainly float32 because a cast of a parameter made it so."""
    if value.literal != "float32" or value.form is not Form.TENSOR:
        return False
    steps = value.chain()
    return any(s.verb is Verb.CAST for s in steps) and any(isinstance(s.node, ast.arg) for s in steps)


def may_be_upcast(value: Value) -> bool:
    """Whether a result is float32 because a parameter was cast, as far as anything is known of it."""
    rest = {o.kind for o in value.origins if o.kind is not Kind.LITERAL}
    if not value.has(Kind.LITERAL, "float32") or not rest <= {Kind.OUTPUT, Kind.NONE}:
        return False
    return any(
        s.verb is Verb.CAST and any(isinstance(b.node, ast.arg) for b in s.chain()) for s in value.chain()
    )


def follows(call: ast.Call, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The row of a kernel whose result takes an argument's dtype, when nothing in the call says otherwise."""
    given = {k.arg for k in call.keywords}
    for row in rows:
        if row["name"] == last_name(call.func) and not given & {*row["unless"], None}:
            return row
    return None


def restored(flow: Flow, expr: ast.expr) -> str | None:
    """The parameter whose dtype an expression was cast back to after it had been float32."""
    for call in reversed(flow.casts(expr)):
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("to", "type", "type_as"):
            continue
        before, after = flow.plain(call.func.value), flow.plain(call)
        if (
            before.has(Kind.LITERAL, "float32")
            and after.only is not None
            and after.only.kind is Kind.PARAMETER
        ):
            return after.only.detail
    return None


def elements(returned: Return) -> tuple[ast.expr, ...]:
    """The expressions of a returned tuple, or the one expression."""
    expr = returned.node.value
    if expr is None:
        return ()
    return tuple(expr.elts) if isinstance(expr, ast.Tuple) else (expr,)


def placeholders(node: ast.If) -> Iterator[Placeholder]:
    """``if …: name = layer(x)`` with ``else: name = torch.empty((0, …), dtype=x.dtype)``, or the reverse."""
    if not node.orelse:
        return
    arms = [{t: v for s in arm for t, v in _bound(s)} for arm in (node.body, node.orelse)]
    for one, other in (arms, reversed(arms)):
        for name, value in one.items():
            made, dtype = other.get(name), _empty_rows(value)
            if dtype is not None and isinstance(made, ast.Call) and isinstance(value, ast.Call):
                if _empty_rows(made) is None and not last_name(made.func).startswith(tuple(ALLOCATIONS)):
                    yield Placeholder(name, made, value, dtype)


def _bound(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        yield statement.targets[0].id, statement.value


def _empty_rows(expr: ast.expr) -> ast.Attribute | None:
    """``x.dtype`` of an allocation without rows, ``torch.empty((0, n), dtype=x.dtype)``."""
    if not isinstance(expr, ast.Call) or last_name(expr.func) not in ALLOCATIONS or not expr.args:
        return None
    shape = expr.args[0].elts if isinstance(expr.args[0], ast.Tuple | ast.List) else expr.args
    if not shape or not isinstance(shape[0], ast.Constant) or shape[0].value != 0:
        return None
    for keyword in expr.keywords:
        if (
            keyword.arg == "dtype"
            and isinstance(keyword.value, ast.Attribute)
            and keyword.value.attr == "dtype"
        ):
            return keyword.value
    return None


def emptied_weight(node: ast.Assign) -> bool:
    """Whether a statement is ``layer.weight = Parameter(torch.empty(0))`` without a dtype."""
    target, made = node.targets[0], node.value
    if not isinstance(target, ast.Attribute) or target.attr != "weight" or not isinstance(made, ast.Call):
        return False
    inner = made.args[0] if made.args and last_name(made.func) == "Parameter" else None
    if (
        not isinstance(inner, ast.Call)
        or last_name(inner.func) not in ("empty", "zeros")
        or len(inner.args) != 1
    ):
        return False
    size = inner.args[0]
    return (
        isinstance(size, ast.Constant) and size.value == 0 and all(k.arg != "dtype" for k in inner.keywords)
    )


def ignored_dtype(function: FunctionNode) -> str | None:
    """A parameter that asks for the result's dtype, defaults to None, and is at most looked at in tests."""
    arguments = function.args
    defaults = dict(zip([a.arg for a in arguments.args][::-1], arguments.defaults[::-1], strict=False))
    defaults |= {
        a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None
    }
    for name in OUTPUT_DTYPES:
        default = defaults.get(name)
        if not isinstance(default, ast.Constant) or default.value is not None:
            continue
        tests = [n.test for n in ast.walk(function) if isinstance(n, ast.Assert | ast.If | ast.IfExp)]
        looked = {id(n) for t in tests for n in ast.walk(t)}
        looked |= {
            id(n) for a in ast.walk(function) if isinstance(a, ast.Assert | ast.Raise) for n in ast.walk(a)
        }
        used = [
            n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name and id(n) not in looked
        ]
        if not used:
            return name
    return None


def unrestored(function: FunctionNode, flow: Flow) -> Iterator[tuple[ast.expr, Value, str, str]]:
    """Returned float32 values whose upcast another way out undoes: expression, value, source and why."""
    returns = [r for r in flow.returns() if r.value.form is not Form.NONE]
    undone = [{name for e in elements(r) if (name := restored(flow, e))} for r in returns]
    others = set().union(*undone)
    ignored = ignored_dtype(function)
    for returned, here in zip(returns, undone, strict=True):
        for expr, value in zip(elements(returned), parts(returned.value), strict=False):
            if ignored and len(returns) == 1 and may_be_upcast(value):
                yield expr, value, "the input", f"although {ignored} may be None"
                continue
            if not is_upcast(value):
                continue
            name = _rebound_parameter(function, flow, expr)
            source = next((s.node.arg for s in value.chain() if isinstance(s.node, ast.arg)), "")
            if here and name:
                like = sorted(here)[0]
                yield expr, value, name, f"where the other element is cast back to the dtype of {like}"
            elif not here and source in others and len(elements(returned)) == 1:
                yield expr, value, source, f"where another path casts back to the dtype of {source}"


def _rebound_parameter(function: FunctionNode, flow: Flow, expr: ast.expr) -> str | None:
    """The parameter that a returned name is, if the function rebound it."""
    names = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    return expr.id if isinstance(expr, ast.Name) and expr.id in names and flow.history(expr) else None


def late_reads(function: FunctionNode, flow: Flow) -> Iterator[tuple[ast.Name, Value, str]]:
    """Reads of a parameter's dtype after it was rebound to its upcast or quantised self.

    Only such reads are given that cast a returned value back, or that allocate an output.
    """
    for node in ast.walk(function):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        role = _role(flow.module, node)
        if role is None or flow.module.enclosing_function(node) is not function:
            continue
        value = flow.value(node)
        literal = value.literal or ("fp8" if value.must_be(Kind.PLATFORM_FP8) else "")
        first = next((b.before for b in flow.history(node) if b.before is not None), None)
        if first is None or not first.must_be(Kind.PARAMETER):
            continue
        wanted = {"float32"} if role == "restores" else _QUANTISED
        if literal in wanted:
            yield node, value, literal


def _role(module: Module, name: ast.Name) -> str | None:
    """What the dtype of a name is read for: to restore a returned value, or to allocate an output."""
    around = module.parents.get(name)
    if isinstance(around, ast.Attribute) and around.attr == "dtype":
        around = module.parents.get(around)
    call = module.parents.get(around) if isinstance(around, ast.keyword) else around
    if isinstance(call, ast.Attribute) and call.attr in ALLOCATIONS:
        call = module.parents.get(call)
    if not isinstance(call, ast.Call):
        return None
    statement = module.parents.get(call)
    if isinstance(call.func, ast.Attribute) and call.func.attr == "to" and call.func.value is not name:
        return "restores" if isinstance(statement, ast.Return | ast.Tuple) else None
    if last_name(call.func) in ALLOCATIONS and isinstance(statement, ast.Assign):
        return "allocates" if _OUTPUT.search(ast.unparse(statement.targets[0])) else None
    return None


def narrow_variance(
    owner: ast.ClassDef, function: FunctionNode, flow: Flow, names: frozenset[str]
) -> tuple[ast.Call, Value, FunctionNode] | None:
    """The square that a norm takes in its input's dtype, and the method of another norm that casts first."""
    twins = [t for c in flow.module.tree.body if c is not owner for t in _upcasting(flow.module, c, names)]
    for node in ast.walk(function) if twins else ():
        if isinstance(node, ast.Call) and last_name(node.func) in ("pow", "square"):
            value = flow.value(node.func.value if isinstance(node.func, ast.Attribute) else node)
            if value.form is Form.TENSOR and any(o.kind is Kind.PARAMETER for o in value.origins):
                return node, value, twins[0]
    return None


def _upcasting(module: Module, node: ast.stmt, names: frozenset[str]) -> list[FunctionNode]:
    if not isinstance(node, ast.ClassDef) or "Norm" not in node.name:
        return []
    methods = [m for m in node.body if isinstance(m, FunctionNode) and m.name in names]
    return [m for m in methods if _UPCAST.search(module.text(m))]
