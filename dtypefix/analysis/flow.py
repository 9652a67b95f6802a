"""The dtype flow of one function, and the questions that rules ask of it.

Start from :class:`Flows` (one for each module): ``flows.value(expr)`` says where the dtype of any
expression comes from; ``flows.at(node)`` gives the :class:`Flow` of the function around a node,
which also knows what the function returns, how a name was bound and where a parameter goes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dtypefix.analysis.knowledge import Knowledge, Layer
from dtypefix.analysis.mixing import Origins
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import (
    UNKNOWN,
    Form,
    Kind,
    Origin,
    Step,
    Value,
    Verb,
    item_origins,
    join,
    join_all,
)
from dtypefix.analysis.scopes import Scope, Scopes, stands_inside
from dtypefix.analysis.statements import Binding, Statements
from dtypefix.analysis.surroundings import Surroundings, is_method
from dtypefix.analysis.torch_ops import PRODUCTS
from dtypefix.analysis.walking import walk

if TYPE_CHECKING:
    from dtypefix.analysis.project import Project
    from dtypefix.analysis.resolve import LayerUse


@dataclass(frozen=True, slots=True)
class Return:
    """One ``return`` of a function and the value that it gives."""

    node: ast.Return
    value: Value


@dataclass(frozen=True, slots=True)
class Use:
    """A value handed to a call: argument ``position`` (from 0) or ``keyword`` of ``call``.

    ``callee`` is the dotted path called, local aliases expanded (``self.model.fc``), ``""`` when
    it has none. For both sides of ``a @ b``, and for ``a`` of ``a.matmul(b)``, the callee is ``@``.
    """

    call: ast.Call | ast.BinOp
    argument: ast.expr
    value: Value
    callee: str
    position: int | None
    keyword: str | None


class Flow(Statements):
    """The dtype flow of one function (or of the module level). Nothing runs before the first question."""

    def __init__(self, flows: Flows, node: FunctionNode | ast.Module) -> None:
        super().__init__(flows.around)
        self._prepare()
        self.flows = flows
        self.node = node
        self.module = flows.module
        self._free: dict[str, Value] = {}
        self._state = 0
        self.end: dict[str, Value] = {}

    # ---- questions

    def value(self, expr: ast.AST) -> Value:
        """What is known of an expression of this function at its place.

        Attributes of ``self`` and calls of methods, layers and functions within reach are looked
        into. An expression that is never reached, or not understood, is ``UNKNOWN``.
        """
        return self.flows.resolver.resolve(self.plain(expr), self)

    def plain(self, expr: ast.AST) -> Value:
        """As :meth:`value`, from this function alone: nothing is looked into."""
        self.ensure()
        return self.values.get(expr, UNKNOWN)

    def returns(self) -> tuple[Return, ...]:
        """The ``return`` statements that can be reached, in order, with their values."""
        self.ensure()
        ordered = sorted(self.returned.items(), key=lambda item: item[0].lineno)
        resolve = self.flows.resolver.resolve
        return tuple(Return(node, resolve(value, self)) for node, value in ordered)

    def history(self, name: ast.expr) -> tuple[Binding, ...]:
        """The bindings that the value of a name passed through to get here, first to last.

        For ``q`` after ``q, s = quant(q)`` that is the parameter's first rebinding and every later
        one that can reach this place. A binding whose value does not depend on an earlier binding
        of the name starts the history anew.
        """
        wanted = name.id if isinstance(name, ast.Name) else ast.unparse(name)
        nodes = [s.node for s in self.plain(name).chain() if s.verb is Verb.BOUND and s.name == wanted]
        return tuple(self.bound[node] for node in nodes if node in self.bound)

    def bindings(self, name: str) -> tuple[Binding, ...]:
        """Every binding of a local name or dotted path (``self.x``) in this function, in order."""
        self.ensure()
        found = [b for b in self.bound.values() if b.name == name]
        return tuple(sorted(found, key=lambda b: (b.line, getattr(b.target, "col_offset", 0))))

    def casts(self, expr: ast.expr) -> tuple[ast.Call, ...]:
        """The casting calls that the value of an expression passed through, on some path."""
        return tuple(
            s.node for s in self.plain(expr).chain() if s.verb is Verb.CAST and isinstance(s.node, ast.Call)
        )

    def uses(self, parameter: str, *, look_into: bool = True) -> tuple[Use, ...]:
        """The calls (and matrix products) that get a value whose dtype can still be the parameter's own.

        A value that was cast on every path is not among them. Without ``look_into`` only what this
        function itself shows is followed, as in :meth:`plain`.
        """
        return tuple(u for u in self.arguments(look_into=look_into) if u.value.may_have_dtype_of(parameter))

    def arguments(self, *, look_into: bool = True) -> Iterator[Use]:
        """Every argument of every call in this function that can be reached, in source order."""
        self.ensure()
        value = self.value if look_into else self.plain
        reached = [n for n in self.values if isinstance(n, (ast.Call, ast.BinOp))]
        for node in sorted(reached, key=lambda n: (n.lineno, n.col_offset)):
            if isinstance(node, ast.BinOp):
                if isinstance(node.op, ast.MatMult):
                    for position, side in enumerate((node.left, node.right)):
                        yield Use(node, side, value(side), "@", position, None)
                continue
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr in PRODUCTS and self.plain(func.value).origins:
                yield Use(node, func.value, value(func.value), "@", 0, None)
            callee = self.callee(node)
            for position, argument in enumerate(node.args):
                yield Use(node, argument, value(argument), callee, position, None)
            for keyword in node.keywords:
                if keyword.arg is not None:
                    yield Use(node, keyword.value, value(keyword.value), callee, None, keyword.arg)

    def callee(self, call: ast.Call) -> str:
        """The dotted path that a call calls, imports and local aliases expanded; ``""`` for none."""
        self.ensure()
        func = call.func
        if isinstance(func, ast.Attribute):
            base = self.values.get(func.value, UNKNOWN).path
            return f"{base}.{func.attr}".removeprefix("@") if base else ""
        if isinstance(func, ast.Name):
            path = self.values[func].path if func in self.values else self.name(func, self.end).path
            return (path or func.id).removeprefix("@").removeprefix(".")
        return ""

    def layer(self, expr: ast.expr) -> LayerUse | None:
        """The layer that an expression such as ``self.model.fc`` holds, if its class is known to the pack."""
        return self.flows.resolver.layer(self.plain(expr).path or ast.unparse(expr), self)

    @property
    def scope(self) -> Scope:
        """Where this function is reached."""
        return self.flows.scopes.of(self.node if isinstance(self.node, FunctionNode) else None)

    # ---- how it is computed

    def ensure(self) -> None:
        """Run the flow if it has not run yet. A function that is too deep to follow stays unknown."""
        if self._state:
            return
        self._state = 1
        try:
            self.end = self.run(self.node.body, self._entry()) or {}
        except RecursionError:
            self.values.clear()
            self.returned.clear()
        self._state = 2

    @property
    def running(self) -> bool:
        """Whether the flow is being computed right now, so that it has no answers yet."""
        return self._state == 1

    def _entry(self) -> dict[str, Value]:
        env: dict[str, Value] = {}
        if isinstance(self.node, ast.Module):
            return env
        arguments = self.node.args
        for default in (*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)):
            self.eval(default, env)
        named = [*arguments.posonlyargs, *arguments.args]
        for argument in (*named, *arguments.kwonlyargs):
            env[argument.arg] = self.around.parameter(argument)
        if named and is_method(self.module, self.node):
            env[named[0].arg] = Value(Form.OTHER, path="self")
        if arguments.vararg is not None:
            name = arguments.vararg.arg
            env[name] = Value(Form.LIST, frozenset({Origin(Kind.ITEM, f"{name}[]")}), (), name)
        if arguments.kwarg is not None:
            env[arguments.kwarg.arg] = Value(Form.OTHER, path=arguments.kwarg.arg)
        return env

    def default_dtype(self) -> Origins:
        """The default dtype here: a literal inner block, the model dtype when built, else ambient."""
        return self.default_override or self._default

    @cached_property
    def _default(self) -> Origins:
        scope = self.scope
        if scope is Scope.BUILD:
            return frozenset({Origin(Kind.MODEL, "ambient")})
        return frozenset({Origin(Kind.AMBIENT, scope.value)})

    def free(self, name: str) -> Value:
        """A name that this function does not bind: a closure's, a global, a builtin."""
        known = self._free.get(name)
        if known is None:
            known = self._free[name] = self._look_outside(name)
        return known

    def _look_outside(self, name: str) -> Value:
        if isinstance(self.node, ast.Module):
            return Value(Form.OTHER, path=f"@{name}")
        outer = self.module.enclosing_function(self.node)
        if outer is not None:
            found = self.flows.function(outer).captured(name)
            if found is not None:
                return found
        return self.around.global_value(name)

    def captured(self, name: str) -> Value | None:
        """What a nested function sees under a name bound here: any of its bindings."""
        if self.running:
            return None if name not in self._local_names else UNKNOWN
        self.ensure()
        values = [b.value for b in self.bound.values() if b.name == name]
        if isinstance(self.node, FunctionNode):
            entry = self._entry().get(name)
            if entry is not None:
                values.append(entry)
        found = join_all(values)
        if found is None and name in self.end:
            return self.end[name]
        if found is None:
            outer = self.module.enclosing_function(self.node)
            return self.flows.function(outer).captured(name) if outer is not None else None
        return found

    @cached_property
    def _local_names(self) -> frozenset[str]:
        return frozenset(
            n.id for n in walk(self.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        ) | frozenset(n.arg for n in walk(self.node) if isinstance(n, ast.arg))


class Flows:
    """The flows of one module, each computed when first asked about and kept.

    ``project`` gives access to other files and classes; without it only single functions are
    looked into. Use :meth:`dtypefix.analysis.project.Project.flows` rather than the constructor.
    """

    def __init__(self, module: Module, knowledge: Knowledge, project: Project | None = None) -> None:
        from dtypefix.analysis.resolve import Resolver

        self.module = module
        self.knowledge = knowledge
        self.project = project
        self.scopes = Scopes(module, knowledge, project)
        self.around = Surroundings(module, knowledge, self._global)
        self.resolver = Resolver(self)
        self._flows: dict[ast.AST, Flow] = {}

    def value(self, expr: ast.AST) -> Value:
        """What is known of any expression of the module at its place; see :meth:`Flow.value`."""
        return self.at(expr).value(expr)

    def at(self, node: ast.AST) -> Flow:
        """The flow of the function that a node stands in, or of the module level.

        A default argument or a decorator belongs to the scope of the ``def``.
        """
        inner = node
        for parent in self.module.ancestors(node):
            if isinstance(parent, FunctionNode) and stands_inside(inner, parent):
                return self.function(parent)
            inner = parent
        return self.function(self.module.tree)

    def function(self, node: FunctionNode | ast.Module) -> Flow:
        """The flow of a function, or of the module level for the module's tree."""
        known = self._flows.get(node)
        if known is None:
            known = self._flows[node] = Flow(self, node)
        return known

    def of(self, module: Module) -> Flows:
        """The flows of another module."""
        if module is self.module or self.project is None:
            return self
        return self.project.flows(module)

    def scope_at(self, node: ast.AST) -> Scope:
        """Whether the place of a node is reached in the build scope, outside, or both."""
        return self.scopes.at(node)

    def _global(self, name: str) -> Value:
        flow = self.function(self.module.tree)
        if flow.running:
            return flow.end.get(name) or Value(Form.OTHER, path=f"@{name}")
        flow.ensure()
        found = flow.end.get(name)
        if found is None:
            return Value(Form.OTHER, path=f"@{name}")
        return found


__all__ = ["Binding", "Flow", "Flows", "Layer", "Return", "Step", "Use", "item_origins", "join"]
