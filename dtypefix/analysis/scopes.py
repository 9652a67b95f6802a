"""Whether code runs inside the build scope, where the default dtype is the model dtype."""

from __future__ import annotations

import ast
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from dtypefix.analysis.knowledge import Knowledge
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.walking import children

if TYPE_CHECKING:
    from dtypefix.analysis.project import Project


class Scope(StrEnum):
    """Where a piece of code can be reached."""

    BUILD = "build"
    """Only while the model is constructed and loaded."""
    OUTSIDE = "outside"
    """Only outside: in a forward pass, a kernel, at import time."""
    BOTH = "both"
    UNKNOWN = "unknown"
    """No role and no caller in this file tells."""


def _join(scopes: set[Scope]) -> Scope:
    if not scopes:
        return Scope.UNKNOWN
    if len(scopes) == 1:
        return next(iter(scopes))
    known = scopes - {Scope.UNKNOWN}
    if Scope.BOTH in known or len(known) > 1:
        return Scope.BOTH
    # A known caller outside is a fact, whatever an unseen one adds; a known one inside proves nothing.
    return Scope.OUTSIDE if Scope.OUTSIDE in known else Scope.UNKNOWN


def last_name(expr: ast.expr) -> str:
    """The last component of a name, a dotted name or a call of one: ``b`` of ``a.b()``."""
    while isinstance(expr, ast.Call):
        expr = expr.func
    if isinstance(expr, ast.Attribute):
        return expr.attr
    return expr.id if isinstance(expr, ast.Name) else ""


def stands_inside(child: ast.AST, function: FunctionNode) -> bool:
    """Whether a child of a ``def`` belongs to its body: arguments and decorators belong around it."""
    return (
        child is not function.args and child is not function.returns and child not in function.decorator_list
    )


class Scopes:
    """Answers for the functions of one module; every answer is computed once."""

    def __init__(self, module: Module, knowledge: Knowledge, project: Project | None = None) -> None:
        self.module = module
        self.knowledge = knowledge
        self.project = project
        self._known: dict[ast.AST, Scope] = {}
        self._working: set[ast.AST] = set()

    def of(self, function: FunctionNode | None) -> Scope:
        """The scope of a function or method; module level (None) runs outside."""
        if function is None:
            return Scope.OUTSIDE
        known = self._known.get(function)
        if known is None:
            if function in self._working:
                return Scope.UNKNOWN
            self._working.add(function)
            known = self._known[function] = self._find(function)
            self._working.discard(function)
        return known

    def at(self, node: ast.AST) -> Scope:
        """The scope of the place where a node stands. Default arguments run where the ``def`` does."""
        inner = node
        for parent in self.module.ancestors(node):
            if isinstance(parent, FunctionNode) and stands_inside(inner, parent):
                return self.of(parent)
            inner = parent
        return Scope.OUTSIDE

    def _find(self, function: FunctionNode) -> Scope:
        knowledge = self.knowledge
        owner = self.module.parents.get(function)
        if any(last_name(d) in knowledge.outside_decorators for d in function.decorator_list):
            return Scope.OUTSIDE
        if function.name in self._kernels:
            return Scope.OUTSIDE
        enclosing = self.module.enclosing_function(function)
        if enclosing is not None and not isinstance(owner, ast.ClassDef):
            return self.of(enclosing)
        if isinstance(owner, ast.ClassDef):
            if function.name in knowledge.both_names:
                return Scope.BOTH
            if function.name in knowledge.build_names:
                return Scope.BUILD if self._built_with_model(owner) else Scope.UNKNOWN
            outside = function.name in knowledge.outside_names
            if outside or function.name.startswith(knowledge.outside_prefixes):
                return Scope.OUTSIDE
        found = self._called_from(owner if isinstance(owner, ast.ClassDef) else None, function.name)
        if not found and isinstance(owner, ast.ClassDef):
            found = self._called_from_bases(owner, function.name)
        return _join(found)

    def _called_from(self, owner: ast.ClassDef | None, name: str) -> set[Scope]:
        """The scopes of the places in this module that call a function, or a method of a class or its kin."""
        classes = [owner] if owner is None else self._kin(owner)
        callers = [caller for cls in classes for caller in self._callers.get((cls, name), ())]
        return {self.of(caller) if caller is not self._escaped else Scope.UNKNOWN for caller in callers}

    def _called_from_bases(self, owner: ast.ClassDef, name: str) -> set[Scope]:
        """The scopes of the calls in base classes that stand in other files."""
        if self.project is None:
            return set()
        found: set[Scope] = set()
        for cls in self.project.class_of(self.module, owner).mro[1:]:
            if cls.module is not self.module:
                found |= self.project.flows(cls.module).scopes._called_from(cls.node, name)
        return found

    def _kin(self, owner: ast.ClassDef) -> list[ast.ClassDef | None]:
        """A class with its ancestors and descendants in this module."""
        kin: list[ast.ClassDef | None] = [owner]
        for above in (True, False):
            todo = [owner]
            while todo:
                cls = todo.pop()
                for other in self._classes:
                    lower, upper = (cls, other) if above else (other, cls)
                    if other not in kin and any(last_name(base) == upper.name for base in lower.bases):
                        kin.append(other)
                        todo.append(other)
        return kin

    @cached_property
    def _classes(self) -> list[ast.ClassDef]:
        return [n for n in self.module.definitions.values() if isinstance(n, ast.ClassDef)]

    def _built_with_model(self, owner: ast.ClassDef) -> bool:
        """Whether objects of a class are made while the model is, as far as the pack knows."""
        name = self.module.name
        foreign = any(name == m or name.startswith(m + ".") for m in self.knowledge.unbuilt_modules)
        return not foreign or owner.name.endswith(self.knowledge.built_suffixes)

    @cached_property
    def _kernels(self) -> frozenset[str]:
        """Names of functions that this module hands to torch as kernels or fake kernels."""
        found: set[str] = set()
        registrations = self.knowledge.kernel_registrations
        if not any(name.encode() in self.module.source for name in registrations):
            return frozenset()
        for node in self.module.nodes():
            if isinstance(node, ast.Call) and (keywords := registrations.get(last_name(node.func))):
                for keyword in node.keywords:
                    if keyword.arg in keywords and isinstance(keyword.value, ast.Name):
                        found.add(keyword.value.id)
        return frozenset(found)

    # Stands for "handed on as a value", whose callers are not known.
    _escaped: FunctionNode = ast.FunctionDef("", ast.arguments([], [], None, [], [], None, []), [], [])

    @cached_property
    def _callers(self) -> dict[tuple[ast.ClassDef | None, str], list[FunctionNode | None]]:
        """For each method (class, name) and function (None, name): the functions that call it here."""
        found: dict[tuple[ast.ClassDef | None, str], list[FunctionNode | None]] = {}

        def note(key: tuple[ast.ClassDef | None, str], caller: FunctionNode | None) -> None:
            known = found.setdefault(key, [])
            if caller not in known:
                known.append(caller)

        def visit(node: ast.AST, owner: ast.ClassDef | None, caller: FunctionNode | None) -> None:
            for child in children(node):
                if isinstance(child, ast.ClassDef):
                    visit(child, child, caller)
                elif isinstance(child, FunctionNode):
                    visit(child, owner, child)
                else:
                    called = node.func is child if isinstance(node, ast.Call) else False
                    if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
                        note((None, child.id), caller if called else self._escaped)
                    elif isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Load):
                        base = child.value
                        if owner is not None and (
                            (isinstance(base, ast.Name) and base.id in ("self", "cls", owner.name))
                            or (isinstance(base, ast.Call) and last_name(base) == "super")
                        ):
                            note((owner, child.attr), caller if called else self._escaped)
                    visit(child, owner, caller)

        visit(self.module.tree, None, None)
        return found
