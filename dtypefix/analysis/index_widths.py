"""Where the width of an integer index is decided: by a literal, by numpy elsewhere, by a caller."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from dtypefix.analysis.flow import Flows
from dtypefix.analysis.kernels import (
    is_constexpr,
    is_kernel,
    kernel_of,
    launched,
    parameter_names,
    stores_counter,
)
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import Kind, Value
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.walking import walk

INHERIT = frozenset({"new_empty", "new_zeros"})
# Calls that make a tensor of a numpy array in whatever dtype that has; the first takes a dtype as well.
TO_DEVICE = ("async_tensor_h2d", "as_tensor", "from_numpy")
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


def suspects(module: Module, ops: Collection[str]) -> Iterator[ast.AST]:
    """Conditional values in kernels and their launches, and the calls that may take or make an index.

    ``ops`` are the last components of the operations whose index arguments have a known width.
    """
    kernels = b"triton" in module.source
    pointers = b"data_ptr()" in module.source
    inherited: list[ast.Call] = []
    launching: set[ast.AST | None] = set()
    for node in module.nodes(ast.IfExp, ast.Call):
        if isinstance(node, ast.IfExp) and kernels:
            arms = (node.body, node.orelse)
            if any(isinstance(arm, ast.Constant) for arm in arms):
                function = module.enclosing_function(node)
                if isinstance(function, FunctionNode) and is_kernel(function):
                    if literal_beside_load(node, function):
                        yield node
            elif isinstance(parent := module.parents[node], ast.Call) and launched(parent):
                yield node
        elif isinstance(node, ast.Call):
            name, typed = last_name(node.func), has_keyword(node, "dtype")
            if launched(node):
                launching.add(module.enclosing_function(node))
            elif name in INHERIT:
                if kernels and not typed and isinstance(module.parents[node], ast.Assign):
                    inherited.append(node)
            elif name in TO_DEVICE or (name == "tensor" and pointers):
                function = module.enclosing_function(node)
                find = array_from_elsewhere if name in TO_DEVICE else addresses
                if not typed and node.args and function is not None and find(function, node.args[0]):
                    yield node
            elif name in ops:
                yield node
            elif name in ("empty", "zeros", "ones") and not typed:
                if floating_index(node, target_of(module.parents[node])):
                    yield node
    yield from (call for call in inherited if module.enclosing_function(call) in launching)


def target_of(statement: ast.AST) -> ast.expr | None:
    """What an assignment binds."""
    return statement.targets[0] if isinstance(statement, ast.Assign) else None


def inherited_counter(
    flows: Flows, call: ast.Call, function: FunctionNode
) -> tuple[str, FunctionNode, str] | None:
    """The buffer made by ``x.new_empty(…)`` in which a kernel stores int32 counters, in whatever width x has.

    Returns:
        The buffer's name, the kernel and the kernel's parameter, if there is such a launch.
    """
    target = target_of(flows.module.parents[call])
    if not isinstance(call.func, ast.Attribute) or has_keyword(call, "dtype"):
        return None
    source = call.func.value
    if not isinstance(target, ast.Name) or target.id.endswith(last_name(source) or "?"):
        return None
    for launch in (n for n in walk(function) if isinstance(n, ast.Call) and launched(n)):
        kernel = kernel_of(flows.module, launch)
        names = parameter_names(kernel) if kernel is not None else []
        given = zip(names, launch.args, strict=False)
        place = next((n for n, a in given if ast.unparse(a) == target.id), None)
        if kernel is not None and place is not None and stores_counter(kernel, place):
            return (target.id, kernel, place) if flows.value(source).literal is None else None
    return None
