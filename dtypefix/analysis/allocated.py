"""Under which name an allocated tensor becomes a parameter or a buffer."""

from __future__ import annotations

import ast

from dtypefix.analysis.module import Module

_REGISTERS = frozenset({"register_parameter", "register_buffer"})


def parameter_name(module: Module, call: ast.Call) -> str | None:
    """The name under which a factory call's tensor becomes a parameter or a buffer."""
    around = module.parents.get(call)
    if isinstance(around, ast.keyword) and around.arg == "data":
        around = module.parents.get(around)
    if not isinstance(around, ast.Call) or around.func is call:
        return None
    callee = around.func.attr if isinstance(around.func, ast.Attribute) else ast.unparse(around.func)
    if callee == "register_buffer":
        return _registered(around)
    if not callee.endswith("Parameter"):
        return None
    outer = module.parents.get(around)
    if isinstance(outer, ast.Call):
        return _registered(outer)
    if isinstance(outer, ast.Assign) and isinstance(outer.targets[0], ast.Name | ast.Attribute):
        return ast.unparse(outer.targets[0])
    return None


def _registered(call: ast.Call) -> str | None:
    """The name that ``register_parameter`` or ``register_buffer`` is given."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in _REGISTERS and call.args:
        first = call.args[0]
        return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    return None
