"""Triton kernels: which functions they are, how they are launched, what they store."""

from __future__ import annotations

import ast
import re

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.walking import walk

_CONSTEXPR = re.compile(r"constexpr")


def is_kernel(function: ast.AST | None) -> bool:
    """Whether a function is compiled by Triton: ``@triton.jit`` or a decorator of that name."""
    return isinstance(function, FunctionNode) and any(
        last_name(decorator) == "jit" for decorator in function.decorator_list
    )


def launched(call: ast.Call) -> str | None:
    """The name of the kernel that ``kernel[grid](...)`` launches, or None for any other call."""
    if isinstance(call.func, ast.Subscript):
        return last_name(call.func.value) or None
    return None


def kernel_of(module: Module, call: ast.Call) -> FunctionNode | None:
    """The kernel, defined in the same file, that a launch runs."""
    name = launched(call)
    found = module.definitions.get(name) if name else None
    return found if isinstance(found, FunctionNode) and is_kernel(found) else None


def parameter_names(function: FunctionNode) -> list[str]:
    """The names of the positional parameters."""
    return [a.arg for a in (*function.args.posonlyargs, *function.args.args)]


def is_constexpr(function: FunctionNode, name: str) -> bool:
    """Whether a name is known when the kernel is compiled: a constexpr parameter or a constant."""
    for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        if argument.arg == name:
            note = argument.annotation
            return note is not None and bool(_CONSTEXPR.search(ast.unparse(note)))
    return name.isupper()


def stores_counter(kernel: FunctionNode, pointer: str) -> bool:
    """Whether every store through a pointer parameter stores counters, which are int32."""
    values = [
        call.args[1]
        for call in walk(kernel)
        if isinstance(call, ast.Call)
        and last_name(call.func) == "store"
        and len(call.args) > 1
        and any(isinstance(n, ast.Name) and n.id == pointer for n in walk(call.args[0]))
    ]
    return bool(values) and all(_counts(kernel, value, set()) for value in values)


def _counts(kernel: FunctionNode, expr: ast.expr, seen: set[str]) -> bool:
    """Whether an expression is made of ``tl.arange`` and constants alone, names looked through."""
    found = False
    for node in walk(expr):
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if name != "arange":
                return False
            found = True
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in ("tl", *seen):
            bound = [
                a.value
                for a in walk(kernel)
                if isinstance(a, ast.Assign)
                and any(isinstance(t, ast.Name) and t.id == node.id for t in a.targets)
            ]
            if not bound:
                if not is_constexpr(kernel, node.id):
                    return False
                continue
            if not all(_counts(kernel, value, {*seen, node.id}) for value in bound):
                return False
            found = True
    return found
