"""What a name in a file refers to: imports, aliases and what shadows them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtypefix.analysis.module import FunctionNode, Module, ScopeNode
from dtypefix.analysis.walking import children

_NO_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def _statements(scope: ast.AST) -> Iterator[ast.AST]:
    """Every node of a scope's own body, nested functions and classes left out."""
    todo = [scope]
    while todo:
        for child in children(todo.pop()):
            yield child
            if not isinstance(child, _NO_SCOPE):
                todo.append(child)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    """The absolute module that a ``from`` import names; ``""`` when it leads out of the package."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".") if module.name else []
    if not module.is_package:
        parts = parts[:-1]
    if node.level - 1 >= len(parts):
        return ""
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, node.module] if node.module else parts)


class Imports:
    """Resolves names of one module to dotted names, seen from a given node."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._scopes: dict[ast.AST, tuple[dict[str, str], frozenset[str]]] = {}

    def _scope(self, scope: ast.AST) -> tuple[dict[str, str], frozenset[str]]:
        """The imports of a scope and the names that it binds in other ways."""
        known = self._scopes.get(scope)
        if known is not None:
            return known
        imported: dict[str, str] = {}
        bound: set[str] = set()
        if isinstance(scope, FunctionNode):
            arguments = scope.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                bound.add(argument.arg)
            bound.update(a.arg for a in (arguments.vararg, arguments.kwarg) if a)
        for node in _statements(scope):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname:
                        imported[alias.asname] = alias.name
                    else:
                        top = alias.name.partition(".")[0]
                        imported[top] = top
            elif isinstance(node, ast.ImportFrom):
                origin = _absolute(self.module, node)
                for alias in node.names:
                    if origin:
                        imported[alias.asname or alias.name] = f"{origin}.{alias.name}"
                    else:
                        bound.add(alias.asname or alias.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.add(node.id)
            elif isinstance(node, ScopeNode):
                bound.add(node.name)
        result = self._scopes[scope] = (imported, frozenset(bound))
        return result

    def from_modules(self) -> dict[str, str]:
        """The imports at module level: name to dotted name."""
        return self._scope(self.module.tree)[0]

    def name(self, name: str, at: ast.AST) -> str | None:
        """The dotted name that ``name`` stands for at a node, or None when it is no import.

        A parameter or local of an enclosing function hides the import, as in Python.
        """
        for scope in self.module.ancestors(at):
            if isinstance(scope, FunctionNode):
                imported, bound = self._scope(scope)
                if name in imported:
                    return imported[name]
                if name in bound:
                    return None
        imported, _ = self._scope(self.module.tree)
        if name in imported:
            return imported[name]
        return None

    def is_local(self, name: str, at: ast.AST) -> bool:
        """Whether an enclosing function binds ``name`` itself."""
        return any(
            name in self._scope(scope)[1]
            for scope in self.module.ancestors(at)
            if isinstance(scope, FunctionNode)
        )

    def qualified(self, expr: ast.expr) -> str | None:
        """The dotted name of ``a.b.c`` through imports and module-level aliases, or None.

        A name defined in this module resolves to ``<module>.<name>``.
        """
        return self._qualified(expr, expr, 0)

    def _qualified(self, expr: ast.expr, at: ast.AST, depth: int) -> str | None:
        if isinstance(expr, ast.Attribute):
            base = self._qualified(expr.value, at, depth)
            return f"{base}.{expr.attr}" if base else None
        if not isinstance(expr, ast.Name) or depth > 5:
            return None
        found = self.name(expr.id, at)
        if found is not None:
            return found
        if self.is_local(expr.id, at):
            return None
        definition = self.module.definitions.get(expr.id)
        if definition is None:
            return None
        if isinstance(definition, ast.Assign) and isinstance(definition.value, (ast.Name, ast.Attribute)):
            aliased = self._qualified(definition.value, definition, depth + 1)
            if aliased is not None:
                return aliased
        return f"{self.module.name}.{expr.id}" if self.module.name else expr.id
