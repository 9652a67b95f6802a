"""Is a dtype that is read also used as one, or only looked at?"""

from __future__ import annotations

import ast

from dtypefix.analysis.module import Module
from dtypefix.analysis.walking import walk

_SINKS = frozenset({"dtype", "params_dtype", "out_dtype", "torch_dtype"})


def use_of(module: Module, read: ast.AST) -> ast.AST | None:
    """The first place where a dtype that an expression reads decides another; None when there is none.

    A comparison, an assertion or a message only looks at it. A local name that it is bound to is
    followed to its uses.
    """
    below = read
    for parent in module.ancestors(read):
        if isinstance(parent, ast.Compare | ast.Assert | ast.FormattedValue):
            return None
        if isinstance(parent, ast.IfExp | ast.BoolOp):
            below = parent
            continue
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            return _use_of_name(module, parent, parent.targets[0].id)
        if isinstance(parent, ast.If | ast.While | ast.Expr):
            return None
        return below
    return None


def _use_of_name(module: Module, assign: ast.Assign, name: str) -> ast.AST | None:
    function = module.enclosing_function(assign)
    if function is None:
        return None
    for node in walk(function):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            if node.lineno > assign.lineno and use_of(module, node) is not None:
                return node
    return None


def sink_of(module: Module, use: ast.AST | None) -> str | None:
    """What the dtype decides, in words; None when it is not used as one."""
    parent = module.parents.get(use) if use is not None else None
    while isinstance(parent, ast.IfExp | ast.BoolOp):
        parent = module.parents.get(parent)
    if isinstance(parent, ast.Assign):
        target = ast.unparse(parent.targets[0])
        return f"`{target}`" if target.endswith("dtype") and "." in target else None
    named = isinstance(parent, ast.keyword) and parent.arg in _SINKS
    call = module.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call):
        return None
    cast = isinstance(call.func, ast.Attribute) and call.func.attr == "to"
    if not (named or cast):
        return None
    shown = call.func.value if cast and isinstance(call.func, ast.Attribute) else call.func
    return f"the dtype of `{ast.unparse(shown)[:60]}`"
