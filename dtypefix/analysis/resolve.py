"""Looks into what a single function leaves open: attributes, helper methods, layers."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtypefix.analysis.calls import described
from dtypefix.analysis.knowledge import Layer
from dtypefix.analysis.mixing import UNKNOWN_ORIGINS, Origins, mix_all
from dtypefix.analysis.module import FunctionNode
from dtypefix.analysis.origins import (
    CLOSED,
    MAX_ORIGINS,
    NONE_ORIGIN,
    UNKNOWN,
    Form,
    Kind,
    Origin,
    Step,
    Value,
    Verb,
    item_origins,
    join_all,
)
from dtypefix.analysis.surroundings import is_method
from dtypefix.analysis.transfer import Args

if TYPE_CHECKING:
    from dtypefix.analysis.classes import ClassRef, Construction
    from dtypefix.analysis.flow import Flow, Flows

_MAX_DEPTH = 4
_OPEN = frozenset({Kind.ATTRIBUTE, Kind.OUTPUT, Kind.PROMOTED})
_ANSWERS = CLOSED | {Kind.KV_CACHE, Kind.AMBIENT, Kind.SCALAR, Kind.NONE}
_MAX_ASSIGNMENTS = 6


@dataclass(frozen=True, slots=True)
class LayerUse:
    """A layer that an attribute holds: what the pack knows of its class, and the call that built it."""

    layer: Layer
    construction: Construction


class Resolver:
    """Resolves the open origins of values of one module's flows; every answer is kept."""

    def __init__(self, flows: Flows) -> None:
        self.flows = flows
        self._attributes: dict[tuple[ast.ClassDef, str], Value | None] = {}
        self._layers: dict[tuple[ast.ClassDef, str], LayerUse | None] = {}
        self._depth = 0
        self._working: set[object] = set()

    def resolve(self, value: Value, flow: Flow) -> Value:
        """The value with every origin that can be looked into replaced by what is found there."""
        if value.form is Form.TUPLE:
            elements = tuple(self.resolve(element, flow) for element in value.elements)
            return Value(value.form, frozenset(), elements, value.path, value.zero_dim, value.steps)
        if not any(o.kind in _OPEN for o in value.origins) or self._depth >= _MAX_DEPTH:
            return value
        self._depth += 1
        try:
            found = [self._origin(origin, flow) for origin in value.alternatives]
        finally:
            self._depth -= 1
        origins: Origins = frozenset().union(*(v.origins if v.form is not Form.TUPLE else item_origins(v) for v in found))
        form = value.form
        if form is Form.ANY and len(found) == 1:
            if found[0].form is Form.TUPLE:
                return Value(Form.TUPLE, frozenset(), found[0].elements, value.path, False, value.steps)
            form = found[0].form
        if len(origins) > MAX_ORIGINS or (not origins and form in (Form.TENSOR, Form.DTYPE, Form.ANY)):
            origins = UNKNOWN_ORIGINS
        steps = value.steps
        for one in found:
            steps += tuple(s for s in one.steps if s not in steps)
        zero = value.zero_dim or (len(found) == 1 and found[0].zero_dim)
        return Value(form, origins, value.elements, value.path, zero, steps)

    def _origin(self, origin: Origin, flow: Flow) -> Value:
        key = (origin, flow.node)
        if key in self._working:
            return _as_is(origin)
        self._working.add(key)
        try:
            found: Value | None = None
            if origin.kind is Kind.ATTRIBUTE:
                found = self._attribute(origin, flow)
            elif origin.kind is Kind.OUTPUT:
                found = self._output(origin, flow)
            elif origin.kind is Kind.PROMOTED:
                parts = [Value(Form.TENSOR, self._origin(part, flow).origins) for part in origin.parts]
                found = Value(Form.TENSOR, mix_all(parts, flow.default_dtype()))
            return found if found is not None else _as_is(origin)
        finally:
            self._working.discard(key)

    # ---- attributes

    def owner(self, flow: Flow) -> ClassRef | None:
        """The class whose method a flow belongs to."""
        project = self.flows.project
        node: ast.AST | None = flow.node
        while isinstance(node, FunctionNode) and not is_method(flow.module, node):
            node = flow.module.enclosing_function(node)
        if project is None or not isinstance(node, FunctionNode):
            return None
        owner = flow.module.parents.get(node)
        return project.class_of(flow.module, owner) if isinstance(owner, ast.ClassDef) else None

    def _attribute(self, origin: Origin, flow: Flow) -> Value | None:
        path = origin.detail
        if path.startswith("@"):
            return self._imported(path[1:])
        parts = path.split(".")
        if parts[0] != "self" or len(parts) < 2 or "[" in path or "(" in path:
            return None
        owner = self.owner(flow)
        holder = self._class_at(owner, parts[1:-1])
        if holder is None:
            return None
        key = (holder.node, parts[-1])
        if key not in self._attributes:
            self._attributes[key] = None
            self._attributes[key] = self._assigned(holder, parts[-1])
        found = self._attributes[key]
        if found is None:
            return None
        own = found.origins
        kept = frozenset(o if o.kind in _ANSWERS else origin for o in own)
        if len(parts) > 2:
            prefix = ".".join(parts[:-1])
            kept = frozenset(_moved(o, prefix) for o in kept)
        return Value(found.form, kept, (), found.path, found.zero_dim, found.steps)

    def _assigned(self, holder: ClassRef, name: str) -> Value | None:
        """The join of what a class assigns to an attribute."""
        assigned = holder.attribute_values(name)
        if not assigned or len(assigned) > _MAX_ASSIGNMENTS:
            return None
        found: list[Value] = []
        for one in assigned:
            flows = self.flows.of(one.owner.module)
            flow = flows.function(one.method) if one.method is not None else flows.function(one.owner.module.tree)
            if flow.running:
                return None
            value = flow.value(one.value)
            if value.form is Form.CONFIG:
                origin = Origin(Kind.CHECKPOINT, f"self.{name}.dtype")
                value = Value(Form.ANY, frozenset({origin}), steps=value.steps)
            elif value.path and (known := flows.around.known_path(f"{value.path}.dtype")) is not None:
                value = Value(Form.ANY, frozenset({known}), steps=value.steps)
            if flow.module is not self.flows.module:
                value = _in_file(value, flow.module.path)
            found.append(value)
        known_values = [v for v in found if v.origins != {NONE_ORIGIN}] or found
        return join_all(known_values)

    def _imported(self, dotted: str) -> Value | None:
        project = self.flows.project
        found = project.definition(dotted) if project is not None else None
        if found is None or not isinstance(found.node, (ast.Assign, ast.AnnAssign)) or found.node.value is None:
            return None
        flow = self.flows.of(found.module).function(found.module.tree)
        if flow.running:
            return None
        value = flow.value(found.node.value)
        return _in_file(value, found.module.path) if value.form is Form.DTYPE else None

    def _class_at(self, owner: ClassRef | None, parts: Sequence[str]) -> ClassRef | None:
        """The class of ``self.a.b`` from the class of ``self``, when every step builds one class."""
        for part in parts:
            if owner is None:
                return None
            built = _constructions(owner, part)
            classes = {c.cls.key: c.cls for c in built or () if c.cls is not None}
            if built is None or len(classes) != 1 or any(c.cls is None for c in built):
                return None
            owner = next(iter(classes.values()))
        return owner

    # ---- layers

    def layer(self, path: str, flow: Flow) -> LayerUse | None:
        """The layer under a path such as ``self.model.fc``, or None when its class is not known."""
        parts = path.split(".")
        if parts[0] != "self" or len(parts) < 2 or "(" in path or "'" in path:
            return None
        holder = self._class_at(self.owner(flow), parts[1:-1])
        if holder is None:
            return None
        key = (holder.node, parts[-1])
        if key not in self._layers:
            self._layers[key] = self._built(holder, parts[-1])
        return self._layers[key]

    def _built(self, holder: ClassRef, name: str) -> LayerUse | None:
        uses: list[LayerUse] = []
        for construction in _constructions(holder, name) or ():
            layer = self.layer_of(construction)
            if layer is None:
                return None
            uses.append(LayerUse(layer, construction))
        if not uses or any(u.layer.output != uses[0].layer.output for u in uses):
            return None
        # Of several the quantisable one: what holds for it holds for the others.
        return max(uses, key=lambda u: u.layer.quantisable)

    def layer_of(self, construction: Construction) -> Layer | None:
        """What the pack knows of the class that a call constructs, through its base classes."""
        layers = self.flows.knowledge.layers
        if construction.cls is None:
            return layers.get(construction.class_name)
        for cls in construction.cls.mro:
            if cls.node.name in layers:
                return layers[cls.node.name]
        for name in construction.cls.unresolved_bases:
            if (found := layers.get(name.rpartition(".")[2])) is not None:
                return found
        return None

    # ---- calls

    def _output(self, origin: Origin, flow: Flow) -> Value | None:
        call = flow.calls.get(origin.at[:2])
        if call is None:
            return None
        path, element = origin.detail, origin.at[2]
        function, bound_self = self._callee(path, flow)
        if function is not None:
            return self._summary(origin, function, call, flow, bound_self, element)
        use = self.layer(path, flow)
        if use is None:
            return None
        return self._layer_output(use.layer, origin, call, flow, path)

    def _layer_output(self, layer: Layer, origin: Origin, call: ast.Call, flow: Flow, path: str) -> Value | None:
        entry: str | tuple[str, ...] = layer.output
        element = origin.at[2]
        if isinstance(entry, tuple):
            if not element or element > len(entry):
                return None
            entry = entry[element - 1]
        if entry == "unknown":
            return None
        if entry in ("layer_compute", "layer_weight"):
            kind = Kind.LAYER_COMPUTE if entry == "layer_compute" else Kind.LAYER_WEIGHT
            return Value(Form.TENSOR, frozenset({Origin(kind, path)}))
        if element > 1 and layer.kind == "linear":
            return None
        origins = described(entry, self._arguments(call, flow), path, origin.at)
        return None if origins == UNKNOWN_ORIGINS else Value(Form.TENSOR, origins)

    def _arguments(self, call: ast.Call, flow: Flow) -> Args:
        positional = [self.resolve(flow.plain(a), flow) for a in call.args if not isinstance(a, ast.Starred)]
        keywords = {k.arg: self.resolve(flow.plain(k.value), flow) for k in call.keywords if k.arg}
        if not positional and keywords:
            for name in ("hidden_states", "x", "input", "input_", "inputs"):
                if name in keywords:
                    positional = [keywords[name]]
                    break
        return Args(call, positional, keywords, flow.default_dtype)

    def _callee(self, path: str, flow: Flow) -> tuple[tuple[Flow, FunctionNode] | None, bool]:
        """The method or function of this file, or method of a base class, that a path calls."""
        parts = path.split(".")
        if parts[0] in ("self", "super()") and len(parts) == 2:
            owner = self.owner(flow)
            if owner is not None:
                if parts[0] == "super()":
                    methods = [(c, c.own_methods[parts[1]]) for c in owner.mro[1:] if parts[1] in c.own_methods]
                    found = methods[0] if methods else None
                else:
                    found = owner.method(parts[1])
                if found is not None:
                    cls, node = found
                    return (self.flows.of(cls.module).function(node), node), is_method(cls.module, node)
            return None, False
        if len(parts) == 1:
            nested = flow.functions.get(path) or flow.module.definitions.get(path)
            if isinstance(nested, FunctionNode):
                return (flow.flows.function(nested), nested), False
        return None, False

    def _summary(
        self,
        origin: Origin,
        function: tuple[Flow, FunctionNode],
        call: ast.Call,
        flow: Flow,
        bound_self: bool,
        element: int,
    ) -> Value | None:
        """What a call of a function within reach returns, its parameters replaced by the arguments."""
        inner, node = function
        generator = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in inner.values)
        if inner.running or generator or isinstance(node, ast.AsyncFunctionDef):
            return None
        returned = join_all(r.value for r in inner.returns())
        if returned is None:
            return None
        if element and returned.form is Form.TUPLE:
            if element > len(returned.elements):
                return None
            returned = returned.elements[element - 1]
        elif element and returned.form is not Form.TENSOR:
            return None
        value = self._substituted(returned, origin, node, call, flow, inner, bound_self)
        step = Step(Verb.INSIDE, call, tuple(value.steps))
        return Value(value.form, value.origins, value.elements, "", value.zero_dim, (step,))

    def _substituted(
        self,
        value: Value,
        origin: Origin,
        node: FunctionNode,
        call: ast.Call,
        flow: Flow,
        inner: Flow,
        bound_self: bool,
    ) -> Value:
        if value.form is Form.TUPLE:
            elements = tuple(
                self._substituted(
                    one, Origin(origin.kind, origin.detail, (), (*origin.at[:2], i + 1)), node, call, flow, inner, bound_self
                )
                for i, one in enumerate(value.elements)
            )
            return Value(Form.TUPLE, elements=elements)
        origins: set[Origin] = set()
        for one in value.origins:
            if one.kind in _ANSWERS or (one.kind is Kind.ATTRIBUTE and bound_self):
                origins.add(one)
            elif one.kind is Kind.PARAMETER:
                origins |= self._argument(one.detail, node, call, flow, inner, bound_self) or {origin}
            elif one.kind is Kind.PROMOTED:
                parts = [
                    Value(Form.TENSOR, self._substituted(
                        Value(Form.TENSOR, frozenset({part})), origin, node, call, flow, inner, bound_self
                    ).origins)
                    for part in one.parts
                ]
                origins |= mix_all(parts, flow.default_dtype())
            else:
                origins.add(origin)
        steps = value.steps
        if inner.module is not flow.module:
            steps = _in_file(value, inner.module.path).steps
        return Value(value.form, frozenset(origins), (), "", value.zero_dim, steps)

    def _argument(
        self, name: str, node: FunctionNode, call: ast.Call, flow: Flow, inner: Flow, bound_self: bool
    ) -> Origins:
        """The origins of the argument that a call gives for a parameter."""
        if any(isinstance(a, ast.Starred) for a in call.args):
            return frozenset()
        named = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        if bound_self:
            named = named[1:]
        given: ast.expr | None = None
        if name in named and named.index(name) < len(call.args):
            given = call.args[named.index(name)]
        for keyword in call.keywords:
            if keyword.arg == name:
                given = keyword.value
        if given is not None:
            return item_origins(self.resolve(flow.plain(given), flow))
        return item_origins(_default_of(name, node, inner))


_CONTAINERS = frozenset({"torch.nn.ModuleList", "torch.nn.Sequential"})


def _constructions(owner: ClassRef, part: str) -> list[Construction] | None:
    """What built an attribute, or for ``layers[]`` the modules in it."""
    name, bracket, _ = part.partition("[")
    built = owner.constructions(name)
    if not bracket or built is None:
        return built
    found: list[Construction] = []
    for container in built:
        if container.dotted not in _CONTAINERS or not container.call.args:
            return None
        held = container.call.args[0]
        items = [held.elt] if isinstance(held, (ast.ListComp, ast.GeneratorExp)) else []
        if isinstance(held, (ast.List, ast.Tuple)):
            items = list(held.elts)
        for item in items:
            if not isinstance(item, ast.Call):
                return None
            cls = owner.project.resolve_class(container.module, item.func)
            dotted = cls.dotted if cls else owner.project.qualified(container.module, item.func)
            found.append(type(container)(container.module, item, cls, dotted))
    return found or None


def _default_of(name: str, node: FunctionNode, inner: Flow) -> Value:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    for argument, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
        if argument.arg == name:
            return inner.plain(default)
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if argument.arg == name and keyword_default is not None:
            return inner.plain(keyword_default)
    return UNKNOWN


def _as_is(origin: Origin) -> Value:
    return Value(Form.ANY, frozenset({origin}))


def _moved(origin: Origin, prefix: str) -> Origin:
    """A layer of an object seen from the object that holds it: ``self.fc`` becomes ``self.model.fc``."""
    if origin.kind in (Kind.LAYER_COMPUTE, Kind.LAYER_WEIGHT) and origin.detail.startswith("self"):
        return Origin(origin.kind, prefix + origin.detail.removeprefix("self"))
    return origin


def _in_file(value: Value, path: str) -> Value:
    """The value with its steps marked as standing in another file."""

    def marked(step: Step) -> Step:
        before = tuple(marked(s) for s in step.before)
        return Step(step.verb, step.node, before, step.name, step.path or path)

    steps = tuple(marked(s) for s in value.steps)
    return Value(value.form, value.origins, value.elements, value.path, value.zero_dim, steps)
