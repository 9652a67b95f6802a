"""Shapes of code that rounds a value before the arithmetic on it is done."""

from __future__ import annotations

import ast
import re

from dtypefix.analysis.fp8_formats import root_name
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.walking import walk

_KEEPS = re.compile(r"^(__init__|process_weights_after_loading|_?process_weights\w*)$")
_NARROW = re.compile(r"element_ty$|\.(bfloat16|float16)$")


def narrowed(function: FunctionNode, change: ast.AugAssign) -> ast.Assign | None:
    """The ``c = acc.to(c_ptr.dtype.element_ty)`` before a ``c += …``, if no other binding is nearer."""
    name = change.target.id if isinstance(change.target, ast.Name) else ""
    bound = [
        node
        for node in walk(function)
        if isinstance(node, ast.Assign)
        and node.lineno < change.lineno
        and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    last = max(bound, key=lambda node: node.lineno, default=None)
    if last is None or "ptr" in name or not isinstance(last.value, ast.Call):
        return None
    value = last.value
    narrow = last_name(value.func) == "to" and value.args and _NARROW.search(ast.unparse(value.args[0]))
    return last if narrow else None


def folded_back(call: ast.Call) -> str:
    """``w`` of ``(w.float() * scale).to(w.dtype)``, ``""`` for anything else."""
    if last_name(call.func) != "to" or not isinstance(call.func, ast.Attribute) or not call.args:
        return ""
    product = call.func.value
    if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult | ast.Div):
        return ""
    raised = product.left
    if not isinstance(raised, ast.Call) or not isinstance(raised.func, ast.Attribute):
        return ""
    up = raised.func.attr == "float" or (raised.func.attr == "to" and "float32" in ast.unparse(raised))
    base = ast.unparse(raised.func.value)
    back = ast.unparse(call.args[0]) == f"{base}.dtype"
    return base if up and back and "scale" in ast.unparse(product.right) and "weight" in base else ""


def ignored_dtype(module: Module, function: FunctionNode) -> ast.arg | None:
    """The ``dtype`` parameter of a module-level function that its body never reads."""
    if not isinstance(module.parents.get(function), ast.Module) or "fake" in function.name:
        return None
    if len(function.body) < 2:
        return None
    read = {n.id for n in walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    for argument in (*function.args.args, *function.args.kwonlyargs):
        if argument.arg in ("dtype", "out_dtype") and argument.arg not in read:
            return argument
    return None


def keeps(function: FunctionNode) -> bool:
    """Whether what a function makes is kept: it constructs, or processes weights."""
    return bool(_KEEPS.search(function.name))


def kept(module: Module, call: ast.Call) -> bool:
    """Whether a constructor or the processing of weights stores a scale, or takes it out as a number."""
    function = module.enclosing_function(call)
    if function is None or not keeps(function):
        return False
    for parent in module.ancestors(call):
        if isinstance(parent, ast.Attribute) and parent.attr == "item":
            return True
        if isinstance(parent, ast.stmt):
            return isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Attribute)
    return False


def root_of(call: ast.Call) -> str:
    """The name that a chain of casts starts from."""
    return root_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
