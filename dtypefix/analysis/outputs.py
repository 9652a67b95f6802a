"""What a function gives back: upcasts and how they are undone, and dtypes that are read too late."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dtypefix.analysis.flow import Flow, Return
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import Form, Kind, Value, Verb
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.stand_ins import ALLOCATIONS

OUTPUT_DTYPES = ("dtype", "out_dtype", "output_dtype")
_UPCAST = re.compile(r"\.float\(\)|\.to\((dtype=)?torch\.float(32)?\)|, torch\.float32\)")
_OUTPUT = re.compile(r"(^|_)(out|output|o)(_|$)|result")
_QUANTISED = frozenset({"int8", "uint8", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "fp8"})


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


def follows(call: ast.Call, rows: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ast.expr] | None:
    """The row of a kernel whose result takes an argument's dtype, and that argument.

    None when something in the call says which dtype the result has.
    """
    given = {k.arg: k.value for k in call.keywords}
    if None in given or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    for row in rows:
        if not last_name(call.func).endswith(row["name"]) or not given.keys().isdisjoint(row["unless"]):
            continue
        place = row["position"]
        argument = given.get(row["argument"], call.args[place] if place < len(call.args) else None)
        return (row, argument) if argument is not None else None
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


def squares(node: ast.AST) -> ast.expr | None:
    """What an expression squares: ``x`` of ``x.pow(2)``, ``x.square()``, ``torch.square(x)``, ``x ** 2``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return node.left if getattr(node.right, "value", 0) == 2 else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    whole = node.func.attr == "square"
    if ast.unparse(node.func.value) == "torch":
        two = whole or (len(node.args) == 2 and getattr(node.args[1], "value", 0) == 2)
        return node.args[0] if node.func.attr in ("pow", "square") and two and node.args else None
    two = whole or (node.func.attr == "pow" and [getattr(a, "value", 0) for a in node.args] == [2])
    return node.func.value if two else None


def narrow_variance(function: FunctionNode, flow: Flow) -> tuple[ast.expr, Value, FunctionNode] | None:
    """The mean square that a norm takes in its input's dtype, and the method of a norm that casts first.

    That other method is one of another norm of the file, or another implementation in the same class.
    """
    norms = [c for c in flow.module.tree.body if isinstance(c, ast.ClassDef) and is_norm(c)]
    methods = [m for c in norms for m in c.body if isinstance(m, FunctionNode) and m is not function]
    twin = next((m for m in methods if is_native(m) and _UPCAST.search(flow.module.text(m))), None)
    for node in ast.walk(function) if twin is not None else ():
        squared = squares(node)
        mean = flow.module.parents.get(node)
        mean = flow.module.parents.get(mean) if isinstance(mean, ast.Attribute) else mean
        if squared is None or not isinstance(mean, ast.Call) or last_name(mean.func) != "mean":
            continue
        value = flow.value(squared)
        if any(k.arg == "dtype" for k in mean.keywords) or value.form is not Form.TENSOR:
            continue
        if isinstance(node, ast.expr) and any(o.kind is Kind.PARAMETER for o in value.origins):
            assert twin is not None
            return node, value, twin
    return None


def is_norm(owner: ast.AST | None) -> bool:
    """Whether a class is a norm by its name."""
    return isinstance(owner, ast.ClassDef) and "Norm" in owner.name


def is_native(function: FunctionNode) -> bool:
    """Whether a method computes what its class stands for: ``forward``, or its twin for a platform."""
    return function.name == "forward" or function.name.startswith("forward_")
