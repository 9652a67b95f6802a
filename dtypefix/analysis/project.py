"""Cross-file look-up on demand: modules, definitions and classes, never a whole-tree parse."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from dtypefix.analysis.imports import Imports
from dtypefix.analysis.module import Module, ScopeNode

if TYPE_CHECKING:
    from dtypefix.analysis.classes import ClassRef
    from dtypefix.analysis.flow import Flows
    from dtypefix.analysis.knowledge import Knowledge

_KEPT_FLOWS = 32


DEFAULT_LINE_LENGTH = 88


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """The bytes of one importable module and how reports name its file."""

    path: str
    source: bytes
    is_package: bool


class SourceLookup(Protocol):
    """Finds modules by dotted name, and files by what they hold."""

    def find(self, name: str) -> ModuleSource | None:
        """The module of a dotted name, or None when no root holds it."""
        ...

    def line_length(self, path: str) -> int | None:
        """The line length set by the ``pyproject.toml`` that governs a reported path, if any."""
        ...

    def derived(self, base: str) -> Sequence[tuple[str, str]]:
        """The module and the name of each class that names ``base`` among its bases."""
        ...


class NoSources:
    """A look-up for code that stands alone: it finds nothing."""

    def find(self, name: str) -> ModuleSource | None:
        """Nothing is found."""
        return None

    def line_length(self, path: str) -> int | None:
        """No setting is known."""
        return None

    def derived(self, base: str) -> Sequence[tuple[str, str]]:
        """There are no other classes."""
        return ()


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a name is defined: a class, a function or an assignment at module level."""

    module: Module
    name: str
    node: ast.stmt


class Project:
    """Everything a rule can ask about code outside the node it looks at.

    Modules, import maps and classes are parsed when first asked for and kept until :meth:`forget`.
    ``parsed`` counts the bytes of source whose trees are kept, ``asked`` holds what was looked up since
    :meth:`begin`, whether found or not: ``m`` and a module's name, ``s`` and the simple name of a class
    whose subclasses were wanted, ``l`` and a path whose line length was.
    """

    def __init__(self, lookup: SourceLookup, load_knowledge: Callable[[], Knowledge] | None = None) -> None:
        """``load_knowledge`` gives the packs' tables; it is called when they are first needed."""
        self.lookup = lookup
        self._load_knowledge = load_knowledge
        self._flows: dict[str, tuple[Module, Flows]] = {}
        self._modules: dict[str, Module | None] = {}
        self._imports: dict[int, tuple[Module, Imports]] = {}
        self._added: dict[str, Module] = {}
        self._own: Module | None = None
        self.parsed = 0
        self.asked: set[str] = set()

    def begin(self) -> None:
        """Start on another file: what it is told must not depend on the files before it."""
        self._flows.clear()
        self._own = None
        self.asked = set()

    def forget(self) -> None:
        """Let go of every tree and of what is known about them; what is asked for again is read again."""
        self._flows.clear()
        self._modules.clear()
        self._added.clear()
        self._imports.clear()
        self.parsed = 0

    def add(self, module: Module) -> None:
        """Start on this parsed module: look-ups of its name find it, and not what lies on disk."""
        self.begin()
        self.parsed += len(module.source)
        self._own = module
        if module.name:
            self._added[module.name] = module

    def module(self, name: str) -> Module | None:
        """The module of a dotted name, or None when it is not in reach or does not parse."""
        if self._own is not None and name and name == self._own.name:
            return self._own
        self.asked.add(f"m {name}")
        if name not in self._modules:
            self._modules[name] = self._find(name)
        return self._modules[name]

    def _find(self, name: str) -> Module | None:
        found = self.lookup.find(name)
        if found is None:
            return None
        added = self._added.get(name)
        if added is not None and added.path == found.path and added.source == found.source:
            return added
        try:
            module = Module(found.path, found.source, name, found.is_package)
        except (SyntaxError, ValueError):
            return None
        self.parsed += len(found.source)
        return module

    def imports(self, module: Module) -> Imports:
        """The import map of a module."""
        known = self._imports.get(id(module))
        if known is None:
            known = self._imports[id(module)] = (module, Imports(module))
        return known[1]

    def line_length(self, module: Module) -> int:
        """The line length, in columns, of the module's formatter: ruff's and Black's 88 by default."""
        self.asked.add(f"l {module.path}")
        return self.lookup.line_length(module.path) or DEFAULT_LINE_LENGTH

    @cached_property
    def knowledge(self) -> Knowledge:
        """The packs' facts about the code base."""
        from dtypefix.analysis.knowledge import Knowledge

        return self._load_knowledge() if self._load_knowledge is not None else Knowledge()

    def flows(self, module: Module) -> Flows:
        """The dtype flows of a module. Those of the modules asked about last are kept."""
        from dtypefix.analysis.flow import Flows

        known = self._flows.pop(module.path, None)
        if known is None or known[0] is not module:
            known = (module, Flows(module, self.knowledge, self))
        self._flows[module.path] = known
        if len(self._flows) > _KEPT_FLOWS:
            del self._flows[next(iter(self._flows))]
        return known[1]

    def qualified(self, module: Module, expr: ast.expr) -> str | None:
        """The dotted name that an expression refers to, through imports; None for anything else."""
        return self.imports(module).qualified(expr)

    def resolve(self, module: Module, expr: ast.expr) -> Definition | None:
        """The definition that a name or dotted name refers to, through imports and re-exports."""
        if isinstance(expr, ast.Name) and self.imports(module).name(expr.id, expr) is None:
            node = module.definitions.get(expr.id)
            if node is not None and not self.imports(module).is_local(expr.id, expr):
                return self._unaliased(Definition(module, expr.id, node), set())
            return None
        dotted = self.qualified(module, expr)
        return self.definition(dotted) if dotted else None

    def definition(self, dotted: str) -> Definition | None:
        """The definition of a dotted name such as ``vllm.config.VllmConfig``."""
        return self._definition(dotted, set())

    def _definition(self, dotted: str, seen: set[str]) -> Definition | None:
        if dotted in seen:
            return None
        seen.add(dotted)
        owner, _, name = dotted.rpartition(".")
        if not owner:
            return None
        module = self.module(owner)
        if module is None:
            return None
        node = module.definitions.get(name)
        if node is not None:
            return self._unaliased(Definition(module, name, node), seen)
        reexported = self.imports(module).from_modules().get(name)
        return self._definition(reexported, seen) if reexported else None

    def _unaliased(self, found: Definition, seen: set[str]) -> Definition:
        """Follow ``A = B`` to what ``B`` is."""
        node = found.node
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute)):
            dotted = self.qualified(found.module, node.value)
            if dotted:
                target = self._definition(dotted, seen)
                if target is not None:
                    return target
        return found

    def resolve_class(self, module: Module, expr: ast.expr) -> ClassRef | None:
        """The class that an expression refers to, or None when it is not in reach."""
        from dtypefix.analysis.classes import ClassRef

        found = self.resolve(module, expr)
        if found is not None and isinstance(found.node, ast.ClassDef):
            return ClassRef(self, found.module, found.node)
        return None

    def class_of(self, module: Module, node: ast.ClassDef) -> ClassRef:
        """The class of a ``class`` statement in ``module``."""
        from dtypefix.analysis.classes import ClassRef

        return ClassRef(self, module, node)

    def subclass_names(self, base: str) -> Sequence[tuple[str, str]]:
        """The module and the name of each class that names ``base`` among its bases."""
        self.asked.add(f"s {base}")
        return self.lookup.derived(base)

    def subclasses(self, cls: ClassRef) -> list[ClassRef]:
        """All known classes below ``cls``, at any depth."""
        found: list[ClassRef] = []
        todo, seen = [cls], {cls.key}
        while todo:
            parent = todo.pop()
            for module_name, name in self.subclass_names(parent.node.name):
                module = self.module(module_name)
                node = module.definitions.get(name) if module else None
                if module is None or not isinstance(node, ast.ClassDef):
                    continue
                child = self.class_of(module, node)
                if child.key not in seen and any(b and b.key == parent.key for b in child.bases):
                    seen.add(child.key)
                    found.append(child)
                    todo.append(child)
        return found


__all__ = ["Definition", "ModuleSource", "NoSources", "Project", "ScopeNode", "SourceLookup"]
