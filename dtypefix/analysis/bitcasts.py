"""Arguments that a Triton kernel reinterprets bit by bit, so that their width is part of its contract."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.walking import walk

_BYTES = {"32": 4, "64": 8}
"""Narrow values are left out: packing kernels split them on purpose."""


def bit_read(module: Module) -> Mapping[str, Mapping[str, int]]:
    """Functions of a file that hand parameters to such a kernel: name to parameter to bytes.

    The kernels of the file that load a value and reinterpret it uncast are looked for first, then the
    functions that launch them with a parameter of their own.
    """
    if b"bitcast=True" not in module.source:
        return {}
    functions = [n for n in module.nodes() if isinstance(n, FunctionNode)]
    kernels = {f.name: (f, found) for f in functions if (found := dict(_reinterpreted(f)))}
    launchers: dict[str, dict[str, int]] = {}
    for function in functions:
        own = _parameters(function)
        for node in walk(function):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
                continue
            kernel = kernels.get(getattr(node.func.value, "id", ""))
            if kernel is None:
                continue
            given = dict(zip(_parameters(kernel[0]), node.args, strict=False))
            given.update((k.arg, k.value) for k in node.keywords if k.arg)
            for name, size in kernel[1].items():
                argument = given.get(name)
                if isinstance(argument, ast.Name) and argument.id in own:
                    launchers.setdefault(function.name, {})[argument.id] = size
    return launchers


def positional(function: FunctionNode, call: ast.Call) -> dict[str, ast.expr]:
    """The arguments of a call of a function of the same file, by parameter."""
    given = dict(zip(_parameters(function), call.args, strict=False))
    given.update((k.arg, k.value) for k in call.keywords if k.arg)
    return given


def _parameters(function: FunctionNode) -> list[str]:
    return [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def _reinterpreted(kernel: FunctionNode) -> Iterator[tuple[str, int]]:
    parameters = set(_parameters(kernel))
    loads: dict[str, list[ast.expr]] = {}
    for node in walk(kernel):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            loads.setdefault(node.targets[0].id, []).append(node.value)
    for node in walk(kernel):
        if not _is_bitcast(node):
            continue
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Attribute)
        size = next((b for bits, b in _BYTES.items() if ast.unparse(node.args[0]).endswith(bits)), None)
        value = node.func.value
        values = loads.get(value.id, []) if isinstance(value, ast.Name) else [value]
        if size is None or len(values) != 1 or not _is_load(values[0]):
            continue
        load = values[0]
        assert isinstance(load, ast.Call)
        for name in walk(load.args[0]):
            if isinstance(name, ast.Name) and name.id in parameters and name.id.endswith("ptr"):
                yield name.id, size


def _is_bitcast(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "to"
        and bool(node.args)
        and any(k.arg == "bitcast" and getattr(k.value, "value", None) is True for k in node.keywords)
    )


def _is_load(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "tl.load" and bool(value.args)
