"""Classes as a reviewer reads them: bases, methods, and which call built an attribute."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.walking import walk

if TYPE_CHECKING:
    from dtypefix.analysis.project import Project


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """One assignment to an attribute: ``self.x = value`` in a method, or ``x = value`` in the class."""

    owner: ClassRef
    method: FunctionNode | None
    value: ast.expr

    @property
    def line(self) -> int:
        """The line of the assigned value."""
        return self.value.lineno


@dataclass(frozen=True, slots=True)
class Construction:
    """What built an attribute.

    ``cls`` is the class when it is in reach, ``dotted`` its dotted name as far as imports tell
    (``torch.nn.Linear``), ``call`` the call that builds it, standing in ``module``.
    """

    module: Module
    call: ast.Call
    cls: ClassRef | None
    dotted: str | None

    @property
    def class_name(self) -> str:
        """The simple name of the class, for messages."""
        if self.cls is not None:
            return self.cls.node.name
        if self.dotted:
            return self.dotted.rpartition(".")[2]
        return ast.unparse(self.call.func)

    def argument(self, name: str) -> ast.expr | None:
        """The argument ``name`` of the building call, given by keyword or by position."""
        for keyword in self.call.keywords:
            if keyword.arg == name:
                return keyword.value
        found = self.cls.method("__init__") if self.cls is not None else None
        if found is not None:
            names = [a.arg for a in (*found[1].args.posonlyargs, *found[1].args.args)][1:]
            if name in names and names.index(name) < len(self.call.args):
                return self.call.args[names.index(name)]
        return None


def _registers(call: ast.Call, this: str) -> bool:
    """Whether a call is ``self.register_buffer("name", tensor)`` or the like."""
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and func.attr in ("register_buffer", "register_parameter")
        and isinstance(func.value, ast.Name)
        and func.value.id == this
        and len(call.args) > 1
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    )


class ClassRef:
    """A class statement together with the module it stands in."""

    def __init__(self, project: Project, module: Module, node: ast.ClassDef) -> None:
        self.project = project
        self.module = module
        self.node = node

    @property
    def key(self) -> tuple[str, str, int]:
        """What identifies the class within a run."""
        return (self.module.path, self.node.name, self.node.lineno)

    @property
    def dotted(self) -> str:
        """The dotted name of the class."""
        return f"{self.module.name}.{self.node.name}" if self.module.name else self.node.name

    @cached_property
    def bases(self) -> list[ClassRef | None]:
        """The base classes in order; None for one that is not in reach."""
        plain = [b.value if isinstance(b, ast.Subscript) else b for b in self.node.bases]
        return [self.project.resolve_class(self.module, base) for base in plain]

    @cached_property
    def unresolved_bases(self) -> list[str]:
        """Names of the bases, at any depth, that are not in reach (``torch`` and built-ins among them)."""
        names = []
        for cls in self.mro:
            for base, found in zip(cls.node.bases, cls.bases, strict=True):
                if found is None:
                    names.append(self.project.qualified(cls.module, base) or ast.unparse(base))
        return names

    @cached_property
    def mro(self) -> list[ClassRef]:
        """This class and every base in reach, depth first, each once."""
        found: list[ClassRef] = []
        seen: set[tuple[str, str, int]] = set()
        todo: list[ClassRef] = [self]
        while todo:
            cls = todo.pop(0)
            if cls.key in seen:
                continue
            seen.add(cls.key)
            found.append(cls)
            todo[:0] = [b for b in cls.bases if b is not None]
        return found

    @cached_property
    def own_methods(self) -> dict[str, FunctionNode]:
        """The methods written in this class statement; the last definition of a name wins."""
        return {n.name: n for n in self.node.body if isinstance(n, FunctionNode)}

    def method(self, name: str) -> tuple[ClassRef, FunctionNode] | None:
        """The method that a look-up of ``name`` finds, with the class that defines it."""
        for cls in self.mro:
            found = cls.own_methods.get(name)
            if found is not None:
                return cls, found
        return None

    @cached_property
    def _own_attributes(self) -> dict[str, list[AttributeValue]]:
        found: dict[str, list[AttributeValue]] = {}

        def add(name: str, method: FunctionNode | None, value: ast.expr | None) -> None:
            if value is not None:
                found.setdefault(name, []).append(AttributeValue(self, method, value))

        for stmt in self.node.body:
            if isinstance(stmt, ast.Assign):
                for target in stmt.targets:
                    if isinstance(target, ast.Name):
                        add(target.id, None, stmt.value)
            elif isinstance(stmt, ast.AnnAssign) and isinstance(stmt.target, ast.Name):
                add(stmt.target.id, None, stmt.value)
            elif isinstance(stmt, FunctionNode) and stmt.args.args:
                this = stmt.args.args[0].arg
                for node in walk(stmt):
                    targets: list[ast.expr] = []
                    value: ast.expr | None = None
                    if isinstance(node, ast.Assign):
                        targets, value = node.targets, node.value
                    elif isinstance(node, ast.AnnAssign):
                        targets, value = [node.target], node.value
                    elif isinstance(node, ast.Call) and _registers(node, this):
                        add(node.args[0].value, stmt, node.args[1])  # type: ignore[attr-defined]
                    for target in targets:
                        if (
                            isinstance(target, ast.Attribute)
                            and isinstance(target.value, ast.Name)
                            and target.value.id == this
                        ):
                            add(target.attr, stmt, value)
        return found

    def attribute_values(self, name: str) -> list[AttributeValue]:
        """The assignments that decide attribute ``name``: those of the nearest class that has any.

        Assignments in methods are preferred over one in the class body, which is a default.
        """
        for cls in self.mro:
            values = cls._own_attributes.get(name)
            if values:
                return [v for v in values if v.method is not None] or values
        return []

    def defines(self, name: str) -> AttributeValue | None:
        """The first assignment to attribute ``name`` here or in a base, if there is one."""
        values = self.attribute_values(name)
        return values[0] if values else None

    def constructions(self, name: str) -> list[Construction] | None:
        """The calls that build attribute ``name``; None when any value of it is not understood.

        A value of ``None`` is left out. A class held in a class attribute (``self.model_cls``) and
        a factory function with one returned call are looked through.
        """
        built: list[Construction] = []
        for value in self.attribute_values(name):
            if isinstance(value.value, ast.Constant) and value.value.value is None:
                continue
            one = self._construction(value.owner.module, value.value, 0)
            if one is None:
                return None
            built.extend(one)
        return built or None

    def _construction(self, module: Module, value: ast.expr, depth: int) -> list[Construction] | None:
        if depth > 4:
            return None
        if isinstance(value, ast.IfExp):
            arms = [
                self._construction(module, arm, depth + 1)
                for arm in (value.body, value.orelse)
                if not (isinstance(arm, ast.Constant) and arm.value is None)
            ]
            if any(arm is None for arm in arms):
                return None
            return [c for arm in arms if arm for c in arm]
        if not isinstance(value, ast.Call):
            return None
        func = value.func
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self":
            held = self.attribute_values(func.attr)
            classes = [(h.owner.module, h.value) for h in held]
            if not classes or self.method(func.attr) is not None:
                return None
            return [self._named(m, value, expr) for m, expr in classes]
        found = self.project.resolve(module, func)
        if found is not None and isinstance(found.node, FunctionNode):
            returned = [n.value for n in walk(found.node) if isinstance(n, ast.Return) and n.value]
            if len(returned) != 1:
                return None
            return self._construction(found.module, returned[0], depth + 1)
        return [self._named(module, value, func)]

    def _named(self, module: Module, call: ast.Call, expr: ast.expr) -> Construction:
        cls = self.project.resolve_class(module, expr)
        return Construction(module, call, cls, cls.dotted if cls else self.project.qualified(module, expr))
