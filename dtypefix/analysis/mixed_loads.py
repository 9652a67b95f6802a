"""Triton kernels that keep loads through different pointers in one variable, which has one type."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from dtypefix.analysis.kernels import is_constexpr, kernel_of, parameter_names
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.scopes import last_name

Path = tuple[tuple[ast.AST, str], ...]


@dataclass(frozen=True, slots=True)
class Mixed:
    """Two arguments of a launch whose loads the kernel keeps in one variable."""

    kernel: FunctionNode
    first: ast.expr
    second: ast.expr
    variable: str


def mixed_arguments(module: Module, call: ast.Call) -> list[Mixed]:
    """The pairs of tensors that ``kernel[grid](...)`` hands to a kernel of this file that mixes them."""
    kernel = kernel_of(module, call) if isinstance(call.func, ast.Subscript) else None
    if kernel is None:
        return []
    names = parameter_names(kernel)
    passed = dict(zip(names, call.args, strict=False))
    passed |= {k.arg: k.value for k in call.keywords if k.arg is not None}
    return [
        Mixed(kernel, passed[first], passed[second], variable)
        for (first, second), variable in mixed_pointers(kernel).items()
        if first in passed and second in passed
    ]


def mixed_pointers(kernel: FunctionNode) -> dict[tuple[str, str], str]:
    """Pairs of pointer parameters whose loads meet in one variable, with the variable's name.

    They meet where both arms of a run-time ``if`` bind the variable, and where a loop binds anew what
    was bound before it. Triton gives such a variable one type and refuses a second.
    """
    parameters = set(parameter_names(kernel))
    roots: dict[str, set[str]] = {p: {p} for p in parameters if p.endswith("_ptr")}
    loads: dict[str, list[tuple[frozenset[str], Path]]] = {}
    for statement, path in _assignments(kernel.body, ()):
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Name):
            continue
        if isinstance(value, ast.Call) and last_name(value.func) == "load" and value.args:
            found = _roots(value.args[0], roots)
            if found:
                loads.setdefault(target.id, []).append((frozenset(found), path))
        elif isinstance(value, ast.Name) and value.id in loads:
            known = frozenset().union(*(r for r, _ in loads[value.id]))
            loads.setdefault(target.id, []).append((known, path))
        else:
            roots[target.id] = _roots(value, roots)
    pairs: dict[tuple[str, str], str] = {}
    for name, places in loads.items():
        for index, (first, here) in enumerate(places):
            for second, there in places[index + 1 :]:
                if len(first) == len(second) == 1 and first != second and _meet(here, there, kernel):
                    pair = (next(iter(first)), next(iter(second)))
                    if pair[::-1] not in pairs:
                        pairs.setdefault(pair, name)
    return pairs


def _roots(expr: ast.expr, known: dict[str, set[str]]) -> set[str]:
    """The pointer parameters that an address is computed from; loaded offsets are numbers."""
    if isinstance(expr, ast.Name):
        return known.get(expr.id, set())
    if isinstance(expr, ast.BinOp):
        return _roots(expr.left, known) | _roots(expr.right, known)
    if isinstance(expr, ast.Subscript):
        return _roots(expr.value, known)
    return set()


def _assignments(body: list[ast.stmt], path: Path) -> Iterator[tuple[ast.Assign, Path]]:
    """Every assignment in order, with the branches and loops around it."""
    for statement in body:
        if isinstance(statement, ast.Assign):
            yield statement, path
        elif isinstance(statement, ast.If):
            yield from _assignments(statement.body, (*path, (statement, "then")))
            yield from _assignments(statement.orelse, (*path, (statement, "else")))
        elif isinstance(statement, ast.For | ast.While):
            # An unrolled loop is straight-line code: a name may change its type there.
            around = path if _unrolled(statement) else (*path, (statement, "loop"))
            yield from _assignments(statement.body, around)


def _meet(here: Path, there: Path, kernel: FunctionNode) -> bool:
    shared = 0
    while shared < min(len(here), len(there)) and here[shared] == there[shared]:
        shared += 1
    if shared < len(here) and shared < len(there):
        node = here[shared][0]
        return node is there[shared][0] and isinstance(node, ast.If) and not _compile_time(node.test, kernel)
    rest = there[shared:]
    return bool(rest) and rest[0][1] == "loop"


def _unrolled(loop: ast.For | ast.While) -> bool:
    return (
        isinstance(loop, ast.For)
        and isinstance(loop.iter, ast.Call)
        and last_name(loop.iter.func) == "static_range"
    )


def _compile_time(test: ast.expr, kernel: FunctionNode) -> bool:
    """Whether a condition is decided when the kernel is compiled, so that one arm never exists."""
    steady = {a.arg for a in ast.walk(kernel.args) if isinstance(a, ast.arg) and is_constexpr(kernel, a.arg)}
    for node in ast.walk(kernel):
        if (isinstance(node, ast.For) and _unrolled(node) and isinstance(node.target, ast.Name)) or (
            isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        ):
            steady.add(node.target.id)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
            if names <= steady and not isinstance(node.value, ast.Call):
                steady.add(node.targets[0].id)
    return all(n.id in steady or n.id.isupper() for n in ast.walk(test) if isinstance(n, ast.Name))
