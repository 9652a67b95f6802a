"""Looks into what a single function leaves open: attributes, helper methods, layers."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtypefix.analysis.calls import described
from dtypefix.analysis.holders import class_at, constructions
from dtypefix.analysis.knowledge import Layer
from dtypefix.analysis.mixing import UNKNOWN_ORIGINS, Origins, mix_all
from dtypefix.analysis.module import FunctionNode
from dtypefix.analysis.origins import (
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
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.summaries import ANSWERS, Callee, Calling, in_file, moved, returned
from dtypefix.analysis.surroundings import is_method

if TYPE_CHECKING:
    from dtypefix.analysis.classes import ClassRef, Construction
    from dtypefix.analysis.flow import Flow, Flows

_MAX_DEPTH = 4
_OPEN = frozenset({Kind.ATTRIBUTE, Kind.OUTPUT, Kind.PROMOTED})
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
        self._answers: dict[tuple[Origin, ast.AST], Value] = {}
        self._depth = 0
        self._working: set[object] = set()

    def resolve(self, value: Value, flow: Flow) -> Value:
        """The value with every origin that can be looked into replaced by what is found there."""
        if value.form is Form.TUPLE:
            elements = tuple(self.resolve(element, flow) for element in value.elements)
            return Value(value.form, frozenset(), elements, value.path, value.zero_dim, value.steps)
        if not any(o.kind in _OPEN for o in value.origins) or self._depth >= _MAX_DEPTH:
            return value
        found = [self._kept_origin(origin, flow) for origin in value.alternatives]
        origins: Origins = frozenset().union(
            *(v.origins if v.form is not Form.TUPLE else item_origins(v) for v in found)
        )
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

    def _kept_origin(self, origin: Origin, flow: Flow) -> Value:
        """As :meth:`_origin`; answers that no limit of depth cut short are kept."""
        if origin.kind not in _OPEN:
            return _as_is(origin)
        known = self._answers.get((origin, flow.node))
        if known is None:
            self._depth += 1
            try:
                known = self._origin(origin, flow)
            finally:
                self._depth -= 1
            if not self._depth:
                self._answers[(origin, flow.node)] = known
        return known

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
                found = Value(Form.ANY, mix_all(parts, flow.default_dtype()))
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
        found = self._attribute_of(owner, parts, origin)
        if found is None or all(o == origin for o in found.origins):
            # Of a module "its dtype" is what its attribute of that name says.
            found = self._attribute_of(owner, [*parts, "dtype"], origin) or found
        # What the pack says of an attribute by its name holds where the class itself does not tell.
        named = self.flows.around.known_path(path)
        if named is None or (found is not None and origin not in found.origins):
            return found
        others = found.origins - {origin} if found is not None else frozenset()
        return Value(Form.DTYPE, others | {named}, steps=found.steps if found is not None else ())

    def _attribute_of(self, owner: ClassRef | None, parts: list[str], origin: Origin) -> Value | None:
        holder = class_at(owner, parts[1:-1])
        if holder is None:
            return None
        key = (holder.node, parts[-1])
        if key not in self._attributes:
            self._attributes[key] = None
            self._attributes[key] = self._assigned(holder, parts[-1])
        found = self._attributes[key]
        if found is None:
            return None
        kept: set[Origin] = set()
        for one in found.origins or {origin}:
            if one.kind in ANSWERS:
                kept.add(moved(one, ".".join(parts[:-1])))
            else:
                given = self._given(one, holder, owner, parts) if one.kind is Kind.PARAMETER else None
                kept |= given or {origin}
        return Value(found.form, frozenset(kept), (), found.path, found.zero_dim, found.steps)

    def _given(self, origin: Origin, holder: ClassRef, owner: ClassRef | None, parts: list[str]) -> Origins:
        """What ``self.a = A(dtype=…)`` gives for a constructor's parameter that ``self.a.x`` holds."""
        above = class_at(owner, parts[1:-2]) if len(parts) > 2 else None
        init = holder.method("__init__")
        built = constructions(above, parts[-2]) if above is not None else None
        if init is None or not built or len(built) > 1:
            return frozenset()
        flow = self.flows.of(built[0].module).at(built[0].call)
        if flow.running:
            return frozenset()
        cls, node = init
        calling = Calling(self, flow, built[0].call, origin)
        given = calling.argument(origin.detail, Callee(self.flows.of(cls.module).function(node), node, True))
        if any(o.kind not in ANSWERS for o in given):
            return frozenset()
        return frozenset(moved(o, ".".join(parts[:-2])) for o in given)

    def _assigned(self, holder: ClassRef, name: str) -> Value | None:
        """The join of what a class assigns to an attribute."""
        assigned = holder.attribute_values(name)
        if not assigned:
            return self._property(holder, name)
        if len(assigned) > _MAX_ASSIGNMENTS:
            return None
        found: list[Value] = []
        for one in assigned:
            flows = self.flows.of(one.owner.module)
            flow = (
                flows.function(one.method)
                if one.method is not None
                else flows.function(one.owner.module.tree)
            )
            if flow.running:
                return None
            value = flow.value(one.value)
            if value.form is Form.CONFIG:
                origin = Origin(Kind.CHECKPOINT, f"self.{name}.dtype")
                value = Value(Form.ANY, frozenset({origin}), steps=value.steps)
            elif value.path and (known := flows.around.known_path(f"{value.path}.dtype")) is not None:
                value = Value(Form.ANY, frozenset({known}), steps=value.steps)
            if flow.module is not self.flows.module:
                value = in_file(value, flow.module.path)
            found.append(value)
        known_values = [v for v in found if v.origins != {NONE_ORIGIN}] or found
        return join_all(known_values)

    def _property(self, holder: ClassRef, name: str) -> Value | None:
        """What a property returns."""
        found = holder.method(name)
        if found is None or not any(
            last_name(d) in ("property", "cached_property") for d in found[1].decorator_list
        ):
            return None
        cls, node = found
        flow = self.flows.of(cls.module).function(node)
        if flow.running:
            return None
        value = join_all(r.value for r in flow.returns())
        if value is not None and cls.module is not self.flows.module:
            value = in_file(value, cls.module.path)
        return value

    def _imported(self, dotted: str) -> Value | None:
        project = self.flows.project
        found = project.definition(dotted) if project is not None else None
        if (
            found is None
            or not isinstance(found.node, (ast.Assign, ast.AnnAssign))
            or found.node.value is None
        ):
            return None
        flow = self.flows.of(found.module).function(found.module.tree)
        if flow.running:
            return None
        value = flow.value(found.node.value)
        return in_file(value, found.module.path) if value.form is Form.DTYPE else None

    # ---- layers

    def layer(self, path: str, flow: Flow) -> LayerUse | None:
        """The layer under a path such as ``self.model.fc``, or None when its class is not known."""
        parts = path.split(".")
        if parts[0] != "self" or len(parts) < 2 or "(" in path or "'" in path:
            return None
        holder = class_at(self.owner(flow), parts[1:-1])
        if holder is None:
            return None
        key = (holder.node, parts[-1])
        if key not in self._layers:
            self._layers[key] = self._built(holder, parts[-1])
        return self._layers[key]

    def _built(self, holder: ClassRef, name: str) -> LayerUse | None:
        uses: list[LayerUse] = []
        for construction in constructions(holder, name) or ():
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
        path = origin.detail
        callee = self._callee(path, flow)
        if callee is not None:
            found = returned(callee, Calling(self, flow, call, origin))
            if found is not None:
                return found
        use = self.layer(path, flow)
        if use is not None:
            return self._layer_output(use.layer, Calling(self, flow, call, origin))
        return None

    def _layer_output(self, layer: Layer, calling: Calling) -> Value | None:
        entry, element, path = layer.output, calling.origin.at[2], calling.origin.detail
        if isinstance(entry, tuple):
            if element > len(entry):
                return None
            if not element:
                parts = [self._layer_entry(one, calling) or UNKNOWN for one in entry]
                return Value(Form.TUPLE, elements=tuple(parts))
            entry = entry[element - 1]
        elif element > 1 and layer.kind == "linear":
            return None
        if entry in ("layer_compute", "layer_weight"):
            kind = Kind.LAYER_COMPUTE if entry == "layer_compute" else Kind.LAYER_WEIGHT
            return Value(Form.TENSOR, frozenset({Origin(kind, path)}))
        return self._layer_entry(entry, calling)

    def _layer_entry(self, entry: str, calling: Calling) -> Value | None:
        if entry == "unknown":
            return None
        arguments = calling.arguments()
        origins = described(entry, arguments, calling.origin.detail, calling.origin.at)
        if origins == UNKNOWN_ORIGINS:
            return None
        given = (*arguments.positional, *arguments.keywords.values())
        before = next((v.steps for v in given if v.origins == origins), ())
        return Value(Form.TENSOR, origins, steps=(Step(Verb.INSIDE, calling.call, before),))

    def _callee(self, path: str, flow: Flow) -> Callee | None:
        """The function of this file, method, or ``forward`` of a module within reach that a path calls."""
        parts = path.split(".")
        if len(parts) == 1:
            node = flow.functions.get(path) or flow.module.definitions.get(path)
            return Callee(flow.flows.function(node), node) if isinstance(node, FunctionNode) else None
        if parts[0] not in ("self", "super()"):
            return self._imported_function(path, flow)
        if "(" in path[7:] or "'" in path:
            return None
        owner = self.owner(flow)
        if owner is None:
            return None
        if len(parts) == 2:
            classes = owner.mro[1:] if parts[0] == "super()" else owner.mro
            for cls in classes:
                node = cls.own_methods.get(parts[1])
                if node is not None:
                    bound = is_method(cls.module, node)
                    return Callee(self.flows.of(cls.module).function(node), node, bound, "self")
        held = class_at(owner, parts[1:]) if parts[0] == "self" else None
        found = held.method("forward") if held is not None and self._is_opaque(held) else None
        if found is None:
            return None
        cls, node = found
        return Callee(self.flows.of(cls.module).function(node), node, True, path)

    def _imported_function(self, dotted: str, flow: Flow) -> Callee | None:
        """A function of the same package in another file."""
        project = self.flows.project
        package = flow.module.name.partition(".")[0]
        if project is None or not package or not dotted.startswith(f"{package}."):
            return None
        found = project.definition(dotted)
        if found is None or not isinstance(found.node, FunctionNode):
            return None
        return Callee(self.flows.of(found.module).function(found.node), found.node)

    def _is_opaque(self, cls: ClassRef) -> bool:
        """Whether the pack has no row for a class, so that its ``forward`` has to tell."""
        return not any(one.node.name in self.flows.knowledge.layers for one in cls.mro)


def _as_is(origin: Origin) -> Value:
    return Value(Form.ANY, frozenset({origin}))
