"""Kernels and the fakes that stand for them while torch traces: do they promise one dtype?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtypefix.analysis.flow import Flow
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import Form, Kind, Value, Verb
from dtypefix.analysis.outputs import elements, parts
from dtypefix.analysis.scopes import last_name


def registrations(module: Module, names: frozenset[str]) -> Iterator[tuple[FunctionNode, FunctionNode]]:
    """Pairs of a kernel and its fake that a file registers together, both defined in it."""
    functions: dict[str, FunctionNode] = {f.name: f for f in module.nodes(ast.FunctionDef)}
    for fake in module.nodes(ast.FunctionDef):
        for decorator in fake.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(called, ast.Attribute) and called.attr == "register_fake":
                if isinstance(called.value, ast.Name) and called.value.id in functions:
                    yield functions[called.value.id], fake
    for node in module.nodes(ast.Call):
        if last_name(node.func) in names:
            given = {k.arg: k.value for k in node.keywords}
            real = given.get("op_func") or (node.args[1] if len(node.args) > 1 else None)
            stand_in = given.get("fake_impl") or (node.args[3] if len(node.args) > 3 else None)
            if isinstance(real, ast.Name) and isinstance(stand_in, ast.Name):
                if real.id in functions and stand_in.id in functions:
                    yield functions[real.id], functions[stand_in.id]


def disagreements(real: Flow, fake: Flow) -> Iterator[tuple[ast.expr, Value, Value]]:
    """What a fake returns in another dtype than its kernel: the expression, its value, the kernel's."""
    mine = [r for r in fake.returns() if r.value.form is not Form.NONE]
    theirs = [_returned(real, r.value) for r in real.returns() if r.value.form is not Form.NONE]
    if len(mine) != 1 or not theirs or len({len(t) for t in theirs} | {len(parts(mine[0].value))}) != 1:
        return
    for index, (expr, value) in enumerate(zip(elements(mine[0]), parts(mine[0].value), strict=False)):
        others = [t[index] for t in theirs]
        if _differs(value, others):
            yield expr, value, others[0]


def _returned(flow: Flow, value: Value) -> tuple[Value, ...]:
    """What a kernel returns; a call that was given ``out=`` returns that."""
    found = []
    for part in parts(value):
        only = part.only
        call = flow.calls.get(only.at[:2]) if only is not None and only.kind is Kind.OUTPUT else None
        out = next((k.value for k in call.keywords if k.arg == "out"), None) if call is not None else None
        found.append(flow.value(out) if out is not None else part)
    return tuple(found)


def _differs(fake: Value, real: list[Value]) -> bool:
    kinds = (Kind.LITERAL, Kind.PARAMETER, Kind.MODEL, Kind.PLATFORM_FP8)
    if not fake.must_be(*kinds) or not all(r.must_be(*kinds) for r in real):
        return False
    if any(fake.origins & r.origins for r in real) or any(_tested(v) for v in (fake, *real)):
        return False
    named = (Kind.LITERAL, Kind.PLATFORM_FP8)
    return fake.must_be(*named) or all(r.must_be(*named) for r in real)


def _tested(value: Value) -> bool:
    """Whether a test, rather than the code, says what a dtype is."""
    return any(step.verb is Verb.TESTED for step in value.chain())
