"""Whether an expression is only the last resort behind something better, or decided by a block around it."""

from __future__ import annotations

import ast
from collections.abc import Collection

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.project import Project
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.walking import walk

_DEFERRING = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LEAVING = (ast.Return, ast.Raise, ast.Assert, ast.Break, ast.Continue)


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

    It must be evaluated whenever ``place`` is, both in the same function, and what it reads must be
    bound at ``place`` to what it is bound to where it stands.
    """
    theirs, mine = _statement(module, expr), _statement(module, place)
    root = expr
    while isinstance(root, ast.Attribute | ast.Call):
        root = root.value if isinstance(root, ast.Attribute) else root.func
    if theirs is None or mine is None or not isinstance(root, ast.Name):
        return False
    if isinstance(expr, ast.Attribute) and not isinstance(expr.ctx, ast.Load):
        return False
    if _is_conditional(module, expr) or is_deferred(module, place):
        return False
    block = _block_of(module, theirs)
    around = {mine, *module.ancestors(mine)}
    beside = next((index for index, stmt in enumerate(block) if stmt in around), None)
    if beside is None:
        return False
    at = block.index(theirs)
    between = block[min(at, beside) : max(at, beside) + 1]
    read = {n.id for n in walk(expr) if isinstance(n, ast.Name)}
    if any(_rebinds(stmt, read, ast.unparse(expr)) for stmt in between):
        return False
    if beside >= at:
        return True
    arguments = function.args
    parameters = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    imports = project.imports(module)
    if any(imports.is_local(name, expr) and name not in parameters for name in read):
        return False
    return not any(isinstance(n, _LEAVING) for stmt in between for n in walk(stmt))


def _statement(module: Module, node: ast.AST) -> ast.stmt | None:
    return next((p for p in module.ancestors(node) if isinstance(p, ast.stmt)), None)


def _block_of(module: Module, statement: ast.stmt) -> list[ast.stmt]:
    """The list of statements that a statement stands in."""
    parent = module.parents[statement]
    blocks = (getattr(parent, name, None) for name in ("body", "orelse", "finalbody"))
    return next((b for b in blocks if isinstance(b, list) and statement in b), [])


def _is_conditional(module: Module, expr: ast.expr) -> bool:
    """Whether the statement around an expression can be run without evaluating it."""
    below: ast.AST = expr
    for parent in module.ancestors(expr):
        if isinstance(parent, ast.stmt):
            # What else stands in an assertion is its message.
            return isinstance(parent, ast.Assert) and below is not parent.test
        if isinstance(parent, _DEFERRING):
            return True
        if isinstance(parent, ast.IfExp) and below is not parent.test:
            return True
        if isinstance(parent, ast.BoolOp) and below is not parent.values[0]:
            return True
        if isinstance(parent, ast.Compare) and below in parent.comparators[1:]:
            return True
        below = parent
    return False


def is_deferred(module: Module, place: ast.AST) -> bool:
    """Whether an expression is evaluated in a scope of its own, where names may mean something else."""
    for parent in module.ancestors(place):
        if isinstance(parent, ast.stmt):
            return False
        if isinstance(parent, _DEFERRING):
            return True
    return False


def _rebinds(statement: ast.stmt, names: Collection[str], text: str) -> bool:
    """Whether a statement binds one of some names, or an attribute that the expression ``text`` reads."""
    for node in walk(statement):
        bound = None
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound = node.id
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            bound = node.name
        elif isinstance(node, ast.alias):
            bound = node.asname or node.name.partition(".")[0]
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            if f"{text}.".startswith(f"{ast.unparse(node)}."):
                return True
        if bound in names:
            return True
    return False
