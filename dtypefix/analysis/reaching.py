"""Which assignments can have given a local name its value at a place."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.walking import walk


@dataclass(frozen=True, slots=True)
class Binding:
    """One assignment of a name: ``value``, or element ``index`` of it where a tuple is unpacked."""

    stmt: ast.stmt
    value: ast.expr
    index: int | None = None


def bindings(module: Module, name: str, at: ast.AST) -> list[Binding]:
    """The assignments of ``name`` that can be in force at a node, the nearest first.

    Assignments are taken in source order; one in a block that encloses the node ends the search,
    one in a branch beside it does not. What a loop carries back to its start is left out.
    """
    function = module.enclosing_function(at)
    if function is None:
        return []
    place = (at.lineno, at.col_offset)  # type: ignore[attr-defined]
    around = set(module.ancestors(at))
    found: list[Binding] = []
    for node in walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
            if node in around or end > place or module.enclosing_function(node) is not function:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            stmt = node if isinstance(node, ast.stmt) else _statement(module, node)
            for target in targets:
                bound = _bound(target, name, node.value)
                if bound is not None and stmt is not None:
                    found.append(Binding(stmt, *bound))
    found.sort(key=lambda b: (b.stmt.lineno, b.stmt.col_offset), reverse=True)
    result: list[Binding] = []
    for binding in found:
        if _excludes(module, binding.stmt, around):
            continue
        result.append(binding)
        if module.parents[binding.stmt] in around:
            break
    return result


def parameter_default(function: FunctionNode, name: str) -> ast.expr | None:
    """The default of parameter ``name``, None when there is no such parameter or no default."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    for argument, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
        if argument.arg == name:
            return default
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if argument.arg == name:
            return keyword_default
    return None


def parameter_names(function: FunctionNode) -> list[str]:
    """The names of all parameters that can be given by name, in order."""
    arguments = function.args
    return [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _bound(target: ast.expr, name: str, value: ast.expr) -> tuple[ast.expr, int | None] | None:
    if isinstance(target, ast.Name):
        return (value, None) if target.id == name else None
    if isinstance(target, ast.Tuple | ast.List):
        for index, element in enumerate(target.elts):
            if isinstance(element, ast.Name) and element.id == name:
                if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                    return value.elts[index], None
                return value, index
    return None


def _statement(module: Module, node: ast.AST) -> ast.stmt | None:
    return next((p for p in module.ancestors(node) if isinstance(p, ast.stmt)), None)


def _excludes(module: Module, stmt: ast.stmt, around: set[ast.AST]) -> bool:
    """Whether a statement stands in the other arm of an ``if`` around the node."""
    below: ast.AST = stmt
    for parent in module.ancestors(stmt):
        if isinstance(parent, ast.If) and parent in around:
            mine = next((arm for arm in (parent.body, parent.orelse) if any(s in around for s in arm)), None)
            return mine is not None and below not in mine
        below = parent
    return False


def path_through_alias(module: Module, expr: ast.expr) -> tuple[str, ...] | None:
    """The attributes of ``self.a.b``, also where a local name stands for ``self.a``; ``()`` for ``self``."""
    names: list[str] = []
    root = expr
    while isinstance(root, ast.Attribute):
        names.insert(0, root.attr)
        root = root.value
    if not isinstance(root, ast.Name):
        return None
    if root.id == "self":
        return tuple(names)
    values = bindings(module, root.id, root)
    if len(values) != 1 or values[0].index is not None or not isinstance(values[0].value, ast.Attribute):
        return None
    head = path_through_alias(module, values[0].value)
    return (*head, *names) if head is not None else None


def is_stored(function: FunctionNode, name: str) -> bool:
    """Whether a function binds a name anew."""
    return any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in walk(function)
    )
