"""What a function gives back: upcasts and how they are undone, placeholders, real and fake kernels."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dtypefix.analysis.flow import Flow, Return
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import Form, Kind, Value, Verb
from dtypefix.analysis.scopes import last_name

OUTPUT_DTYPES = ("dtype", "out_dtype", "output_dtype")
_ALLOCATIONS = frozenset({"empty", "zeros", "new_empty", "new_zeros"})


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


def placeholders(root: ast.AST) -> Iterator[Placeholder]:
    """``if …: name = layer(x)`` with ``else: name = torch.empty((0, …), dtype=x.dtype)``, or the reverse."""
    for node in ast.walk(root):
        if not isinstance(node, ast.If) or not node.orelse:
            continue
        arms = [{t: v for s in arm for t, v in _bound(s)} for arm in (node.body, node.orelse)]
        for one, other in (arms, reversed(arms)):
            for name, value in one.items():
                made, dtype = other.get(name), _empty_rows(value)
                if dtype is not None and isinstance(made, ast.Call) and isinstance(value, ast.Call):
                    if _empty_rows(made) is None and not last_name(made.func).startswith(tuple(_ALLOCATIONS)):
                        yield Placeholder(name, made, value, dtype)


def _bound(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        yield statement.targets[0].id, statement.value


def _empty_rows(expr: ast.expr) -> ast.Attribute | None:
    """``x.dtype`` of an allocation without rows, ``torch.empty((0, n), dtype=x.dtype)``."""
    if not isinstance(expr, ast.Call) or last_name(expr.func) not in _ALLOCATIONS or not expr.args:
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


def emptied_weights(root: ast.AST) -> Iterator[ast.Assign]:
    """``layer.weight = Parameter(torch.empty(0))`` without a dtype."""
    for node in ast.walk(root):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        target, made = node.targets[0], node.value
        if (
            not isinstance(target, ast.Attribute)
            or target.attr != "weight"
            or last_name(made.func) != "Parameter"
        ):
            continue
        inner = made.args[0] if made.args else None
        if (
            isinstance(inner, ast.Call)
            and last_name(inner.func) in ("empty", "zeros")
            and len(inner.args) == 1
        ):
            size = inner.args[0]
            if (
                isinstance(size, ast.Constant)
                and size.value == 0
                and all(k.arg != "dtype" for k in inner.keywords)
            ):
                yield node


def registrations(module: Module, names: frozenset[str]) -> Iterator[tuple[FunctionNode, FunctionNode]]:
    """Pairs of a kernel and its fake that a file registers together, both defined in it."""
    functions: dict[str, FunctionNode] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, FunctionNode):
            functions[node.name] = node
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and last_name(node.func) in names:
            given = {k.arg: k.value for k in node.keywords}
            real = given.get("op_func") or (node.args[1] if len(node.args) > 1 else None)
            fake = given.get("fake_impl") or (node.args[3] if len(node.args) > 3 else None)
            if isinstance(real, ast.Name) and isinstance(fake, ast.Name):
                if real.id in functions and fake.id in functions:
                    yield functions[real.id], functions[fake.id]


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


def suspects(
    module: Module, registering: frozenset[str], native: frozenset[str]
) -> list[tuple[FunctionNode, frozenset[str]]]:
    """The functions of a file that may give back a wrong dtype, from syntax alone, and why.

    Reasons: ``fake``, ``empty`` (placeholders), ``upcast`` (undone on one way out only), ``rebound``
    (the dtype of a name is read after it was bound anew), ``native`` and ``query``.
    """
    found: dict[FunctionNode, set[str]] = {}

    def add(node: ast.AST, reason: str) -> None:
        function = node if isinstance(node, FunctionNode) else module.enclosing_function(node)
        if function is not None:
            found.setdefault(function, set()).add(reason)

    if any(name.encode() in module.source for name in registering):
        for _, fake in registrations(module, registering):
            add(fake, "fake")
    if b"(0" in module.source:
        for node in ast.walk(module.tree):
            if (isinstance(node, ast.Assign) and any(True for _ in emptied_weights(_only(node)))) or (
                isinstance(node, ast.If) and node.orelse and any(True for _ in placeholders(_only(node)))
            ):
                add(node, "empty")
    facts = _facts(module)
    for function, fact in facts.items():
        upcast = "upcast" in fact
        several = fact.get("returns", 0) > 1 and "restore" in fact
        if upcast and (several or "pair" in fact or ignored_dtype(function) is not None):
            add(function, "upcast")
        if "read" in fact:
            add(function, "rebound")
        if "query" in fact:
            add(function, "query")
        if function.name in native and "square" in fact:
            add(function, "native")
    return [(function, frozenset(reasons)) for function, reasons in found.items()]


def _only(node: ast.stmt) -> ast.Module:
    """A statement by itself: of an ``if``, without the conditionals inside it."""
    return ast.Module([node], [])


def _facts(module: Module) -> dict[FunctionNode, dict[str, int]]:
    """What occurs in each function, nested ones left out, in one pass over the file."""
    facts: dict[FunctionNode, dict[str, int]] = {}

    def walk(node: ast.AST, function: FunctionNode | None, rebound: set[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FunctionNode):
                facts[child] = {}
                walk(child, child, _rebound(child))
                continue
            if function is not None:
                for word in _words(child, rebound):
                    facts[function][word] = facts[function].get(word, 0) + 1
            walk(child, function, rebound)

    walk(module.tree, None, set())
    return facts


def _rebound(function: FunctionNode) -> set[str]:
    """Parameters that a function binds anew from a call on themselves."""
    names = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in node.targets:
                elements = target.elts if isinstance(target, ast.Tuple) else [target]
                found |= {e.id for e in elements if isinstance(e, ast.Name) and e.id in names}
    return found


def _words(node: ast.AST, rebound: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Return):
        if node.value is not None:
            yield "returns"
        if isinstance(node.value, ast.Tuple):
            if any(isinstance(e, ast.Name) and e.id in rebound for e in node.value.elts):
                yield "pair"
            if any(_reads(e, rebound) for e in node.value.elts):
                yield "read"
        elif node.value is not None and _reads(node.value, rebound):
            yield "read"
    elif isinstance(node, ast.Assign):
        call = node.value
        if isinstance(call, ast.Call) and last_name(call.func).removesuffix("_like") in _ALLOCATIONS:
            if any(isinstance(n, ast.Name) and n.id in rebound for n in ast.walk(call)):
                yield "read"
    elif isinstance(node, ast.Call):
        name = last_name(node.func)
        if name == "float" and not node.args:
            yield "upcast"
        elif name == "to":
            last = (
                ast.unparse(node.args[-1] if node.args else node.keywords[-1].value)
                if node.args or node.keywords
                else ""
            )
            yield (
                "upcast"
                if last.endswith(("float32", "torch.float"))
                else "restore"
                if last.endswith("dtype")
                else "to"
            )
        elif name in ("pow", "square"):
            yield "square"
        elif any(k.arg == "query" for k in node.keywords):
            yield "query"


def _reads(expr: ast.expr, rebound: set[str]) -> bool:
    """``y.to(x.dtype)`` with ``x`` bound anew."""
    for node in ast.walk(expr):
        if isinstance(node, ast.Attribute) and node.attr == "dtype" and isinstance(node.value, ast.Name):
            if node.value.id in rebound:
                return True
    return False
