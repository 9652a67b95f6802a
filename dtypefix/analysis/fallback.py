"""Whether an expression is only the last resort behind something better, or decided by a block around it."""

from __future__ import annotations

import ast
from collections.abc import Collection

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.project import Project
from dtypefix.analysis.scopes import last_name


def is_fallback(module: Module, node: ast.AST, word: str) -> bool:
    """Whether ``node`` is reached only where a test of, or a read of, ``word`` gave nothing.

    Seen are the arms of ``a if … else b`` and ``if``, the operands of ``a or b``, and the handlers of a
    ``try`` whose body speaks of the word.
    """
    below: ast.AST = node
    for parent in module.ancestors(node):
        better: Collection[ast.AST] = ()
        if isinstance(parent, ast.IfExp) and below is not parent.test:
            better = (parent.test, parent.body if below is parent.orelse else parent.orelse)
        elif isinstance(parent, ast.BoolOp):
            better = [value for value in parent.values if value is not below]
        elif isinstance(parent, ast.If) and below is not parent.test:
            better = (parent.test,)
        elif isinstance(parent, ast.ExceptHandler):
            attempt = module.parents.get(parent)
            better = attempt.body if isinstance(attempt, ast.Try) else ()
        elif isinstance(parent, FunctionNode):
            return False
        if any(word in ast.unparse(other) for other in better):
            return True
        below = parent
    return False


def inside_block(module: Module, node: ast.AST, names: Collection[str]) -> bool:
    """Whether a ``with`` block of one of the named context managers stands around a node."""
    return any(
        isinstance(parent, ast.With | ast.AsyncWith)
        and any(last_name(item.context_expr) in names for item in parent.items)
        for parent in module.ancestors(node)
    )


def may_repeat(
    module: Module, project: Project, expr: ast.expr, place: ast.AST, function: FunctionNode
) -> bool:
    """Whether ``expr`` can be evaluated again at ``place`` with the same result and no new risk.

    It must be reached whenever ``place`` is, in the same function, and the name it starts with must
    be bound by then.
    """
    theirs = next((p for p in module.ancestors(expr) if isinstance(p, ast.stmt)), None)
    mine = next((p for p in module.ancestors(place) if isinstance(p, ast.stmt)), None)
    if theirs is None or mine is None:
        return False
    around = module.parents[theirs]
    if around is not function and around not in set(module.ancestors(mine)):
        return False
    root = expr
    while isinstance(root, ast.Attribute | ast.Call):
        root = root.value if isinstance(root, ast.Attribute) else root.func
    if not isinstance(root, ast.Name):
        return False
    arguments = function.args
    parameters = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    local = project.imports(module).is_local(root.id, expr)
    return not local or root.id in parameters or theirs.lineno < mine.lineno
