"""Where the width of an integer index is decided: by a literal, by numpy elsewhere, by a caller."""

from __future__ import annotations

import ast
import re

from dtypefix.analysis.flow import Flows
from dtypefix.analysis.kernels import is_constexpr, parameter_names
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import Kind, Value
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.walking import walk

WIDTHS = frozenset({"int32", "int64", "uint32", "uint64"})

_INDEX = re.compile(r"(^|_)(idx|index|indices|mapping|slots?|ids|loc|lens|positions|seqlens)(_np)?$")
# "Ids" that are coordinates of patches, which are floating.
_COORDINATES = re.compile(r"(image|img|txt|text|latent)_ids$")
# Calls after which the dtype of a numpy array can be seen in the code.
_MAKERS = frozenset(
    {
        *("empty", "zeros", "ones", "full", "arange", "array", "fromiter", "cumsum", "nonzero", "astype"),
        *("asarray", "argsort", "flatnonzero", "repeat", "ascontiguousarray"),
    }
)


def has_keyword(call: ast.Call, name: str) -> bool:
    """Whether a call passes a keyword."""
    return any(keyword.arg == name for keyword in call.keywords)


def width(value: Value) -> str | None:
    """The integer dtype that every alternative of a value but ``None`` has."""
    names = {o.detail if o.kind is Kind.LITERAL else "" for o in value.origins if o.kind is not Kind.NONE}
    return next(iter(names)) if len(names) == 1 and names <= WIDTHS else None


def floating_index(call: ast.Call, target: ast.expr | None) -> str | None:
    """The name of an index that a factory without a dtype makes, which is float32 then, or None."""
    name = last_name(target) if target is not None else ""
    if (
        not _INDEX.search(name)
        or _COORDINATES.search(name)
        or last_name(call.func) not in ("empty", "zeros", "ones")
    ):
        return None
    if (
        not ast.unparse(call.func).startswith("torch.")
        or has_keyword(call, "dtype")
        or has_keyword(call, "out")
    ):
        return None
    return None if any("dtype" in ast.unparse(a) for a in call.args) else name


def literal_beside_load(choice: ast.IfExp, kernel: FunctionNode) -> tuple[str, ast.expr, ast.expr] | None:
    """The pointer, the literal and the load of a choice that the kernel makes while it runs."""
    arms = (choice.body, choice.orelse)
    constant = next((a for a in arms if isinstance(a, ast.Constant) and type(a.value) is int), None)
    load = next((a for a in arms if isinstance(a, ast.Call) and last_name(a.func) == "load" and a.args), None)
    names = [n.id for n in walk(choice.test) if isinstance(n, ast.Name) and n.id != "tl"]
    if constant is None or not isinstance(load, ast.Call) or all(is_constexpr(kernel, n) for n in names):
        return None
    pointers = [n.id for n in walk(load.args[0]) if isinstance(n, ast.Name) and n.id != "tl"]
    return (pointers[0], constant, load) if pointers else None


def _bindings(function: FunctionNode, name: str) -> list[ast.expr]:
    return [
        node.value
        for node in walk(function)
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]


def array_from_elsewhere(function: FunctionNode, data: ast.expr) -> ast.expr | None:
    """Where a numpy index array comes from another object; None when its dtype can be seen."""
    if not isinstance(data, ast.Name) or not data.id.endswith("_np") or not _INDEX.search(data.id):
        return None
    bound = _bindings(function, data.id)
    for value in bound:
        joined = isinstance(value, ast.Call) and last_name(value.func) in ("where", "concatenate")
        if not joined and not isinstance(value, ast.Attribute | ast.Subscript):
            return None
        for node in walk(value):
            if isinstance(node, ast.Call) and (last_name(node.func) in _MAKERS or has_keyword(node, "dtype")):
                return None
    return bound[0] if bound else None


def addresses(function: FunctionNode, data: ast.expr) -> ast.AST | None:
    """The ``data_ptr()`` call that a list, or a name for one, is filled with."""
    found = _address(data)
    if found is not None or not isinstance(data, ast.Name):
        return found
    for node in walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("append", "extend") and ast.unparse(node.func.value) == data.id:
                found = found or _address(node)
    return found or next((a for value in _bindings(function, data.id) if (a := _address(value))), None)


def _address(expr: ast.AST) -> ast.AST | None:
    return next((n for n in walk(expr) if isinstance(n, ast.Call) and last_name(n.func) == "data_ptr"), None)


def entry(module: Module, flows: Flows, argument: ast.expr, parameter: str, must: str) -> ast.expr | None:
    """Where a parameter comes into the class: for a private method, the argument that its callers pass.

    Returns:
        None when a caller passes it as ``must`` already.
    """
    function, owner = module.enclosing_function(argument), module.enclosing_class(argument)
    if function is None or owner is None or not function.name.startswith("_"):
        return argument
    names = parameter_names(function)[1:]
    found = None
    for call in (n for n in walk(owner) if isinstance(n, ast.Call)):
        if ast.unparse(call.func) != f"self.{function.name}":
            continue
        passed = next((k.value for k in call.keywords if k.arg == parameter), None)
        if passed is None and parameter in names and names.index(parameter) < len(call.args):
            passed = call.args[names.index(parameter)]
        if passed is not None and width(flows.value(passed)) == must:
            return None
        found = found or passed
    return found or argument
