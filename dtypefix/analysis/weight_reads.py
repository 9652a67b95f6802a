"""Reads of a layer's stored weight, and what they are for."""

from __future__ import annotations

import ast
import re

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.packed import COMPUTE
from dtypefix.analysis.scopes import last_name

_GUARD = re.compile(r"is_floating_point|quant_method|quant_config|is_quant|Unquantized")
_LOADS = re.compile(r"load|tie_weights|process_weights")


def layer_read(read: ast.Attribute) -> ast.expr | None:
    """``L`` of ``L.weight.dtype`` or ``L.weight.data.dtype``."""
    value: ast.expr = read.value
    if isinstance(value, ast.Attribute) and value.attr == "data":
        value = value.value
    return value.value if isinstance(value, ast.Attribute) and value.attr == "weight" else None


def borrowed_weight(node: ast.AST) -> ast.Attribute | None:
    """``L.weight`` in ``x.type_as(L.weight)``, ``x.to(L.weight)`` and ``F.linear(x, L.weight)``."""
    given: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("type_as", "to") and len(node.args) == 1:
            given = node.args[0]
        elif node.func.attr == "linear" and ast.unparse(node.func.value).split(".")[-1] in (
            "F",
            "functional",
        ):
            given = next((k.value for k in node.keywords if k.arg == "weight"), None)
            given = node.args[1] if len(node.args) > 1 else given
    return given if isinstance(given, ast.Attribute) and given.attr == "weight" else None


def module_read(read: ast.Attribute) -> ast.expr | None:
    """``M`` of ``next(M.parameters()).dtype``."""
    call = read.value
    if isinstance(call, ast.Call) and ast.unparse(call.func) == "next" and call.args:
        func = call.args[0].func if isinstance(call.args[0], ast.Call) else None
        if isinstance(func, ast.Attribute) and func.attr == "parameters":
            return func.value
    return None


def packed_allocation(call: ast.Call) -> ast.expr | None:
    """The dtype of an allocation in ``params_dtype`` whose shape is divided by a pack factor."""
    dtype = next((k.value for k in call.keywords if k.arg == "dtype"), None)
    if not (isinstance(dtype, ast.Name) and dtype.id == COMPUTE):
        return None
    for argument in call.args:
        sizes = argument.elts if isinstance(argument, ast.Tuple | ast.List) else [argument]
        for size in sizes:
            if isinstance(size, ast.BinOp) and isinstance(size.op, ast.FloorDiv):
                if ast.unparse(size.right).endswith("pack_factor"):
                    return dtype
    return None


def is_excused(module: Module, read: ast.expr) -> bool:
    """Whether a branch has looked at the quantisation, or the function handles checkpoint weights."""
    below: ast.AST = read
    for parent in module.ancestors(read):
        if isinstance(parent, ast.If | ast.IfExp) and below is not parent.test:
            if _GUARD.search(ast.unparse(parent.test)):
                return True
        elif isinstance(parent, FunctionNode) and _LOADS.search(parent.name):
            return True
        below = parent
    return False


def is_looked_at(module: Module, read: ast.Attribute) -> bool:
    """Whether the code only asks for a property of the stored dtype, or chooses between arms by it."""
    return isinstance(module.parents.get(read), ast.Attribute | ast.Match)


def is_destination(module: Module, read: ast.Attribute) -> bool:
    """Whether what is made in the stored dtype is stored into that very weight."""
    layer = layer_read(read)
    if layer is None:
        return False
    weight = f"{ast.unparse(layer)}.weight"

    def names_weight(expr: ast.AST) -> bool:
        return ast.unparse(expr).removesuffix(".data") == weight

    for parent in module.ancestors(read):
        if isinstance(parent, ast.Call):
            func = parent.func
            if isinstance(func, ast.Attribute) and func.attr.endswith("_") and names_weight(func.value):
                return True
            if last_name(func).endswith("_like") and parent.args and names_weight(parent.args[0]):
                return True
        elif isinstance(parent, ast.Assign | ast.AugAssign):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            bases = (t.value if isinstance(t, ast.Subscript) else t for t in targets)
            return any(names_weight(base) for base in bases)
        elif isinstance(parent, ast.stmt):
            return False
    return False
