"""The dtype a layer stores its weight in, taken for the one it computes in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import libcst as cst

from dtypefix.analysis.classes import ClassRef
from dtypefix.analysis.dtype_use import use_of
from dtypefix.analysis.module import Module
from dtypefix.analysis.packed import COMPUTE, PackedLayer, first_parameter, packed_layer
from dtypefix.analysis.reaching import path_through_alias
from dtypefix.analysis.scopes import Scope
from dtypefix.analysis.weight_reads import (
    borrowed_weight,
    is_destination,
    is_excused,
    is_looked_at,
    layer_read,
    module_read,
    packed_allocation,
)
from dtypefix.analysis.witness import owners_of
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Edit, Fix

# These hold the weight formats themselves, and read the stored dtype on purpose.
FORMATS = re.compile(r"(^|/)(quantization|kernels|fused_moe)/")
# vLLM may wrap the linear layers of such a model once it is built; the wrapper has `weight`, not COMPUTE.
WRAPPED_FOR_LORA = {"SupportsMultiModal", "SupportsLoRA"}


class PackedWeightDtype(Rule):
    """Reports reads of ``L.weight.dtype``, and packed storage allocated in the compute dtype."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Reads of a weight's dtype, and allocations whose shape is divided by a pack factor."""
        formats = FORMATS.search(module.path) is not None
        for node in module.nodes():
            if isinstance(node, ast.Attribute) and node.attr == "dtype" and not formats:
                if layer_read(node) is not None or module_read(node) is not None:
                    yield node
            elif isinstance(node, ast.Call):
                if packed_allocation(node) is not None or (not formats and borrowed_weight(node)):
                    yield node

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Examine one read of a weight's dtype."""
        if node.attr.value != "dtype" or FORMATS.search(self.module.path):
            return
        read = self.context.ast_of(node)
        owner = self.module.enclosing_class(read) if read is not None else None
        if not isinstance(read, ast.Attribute) or owner is None or is_excused(self.module, read):
            return
        if is_looked_at(self.module, read) or is_destination(self.module, read):
            return
        cls = self.project.class_of(self.module, owner)
        layer, use = self._layer(cls, read), use_of(self.module, read)
        if layer is None or use is None:
            return
        text = ast.unparse(read)
        fix, reason = self._fix(cls, read, layer)
        self.warn(
            read,
            f"{text} is the stored dtype, which a packed {layer.class_name} does not compute in",
            [layer.evidence, (use, f"`{text}` is used as a dtype")],
            reason or "",
            fix,
        )

    def visit_Call(self, node: cst.Call) -> None:
        """Examine one allocation of packed storage, or a call that is handed a weight."""
        call = self.context.ast_of(node)
        if isinstance(call, ast.Call) and not FORMATS.search(self.module.path):
            self._borrowed(call)
        dtype = packed_allocation(call) if isinstance(call, ast.Call) else None
        if not isinstance(call, ast.Call) or dtype is None:
            return
        if (self.project.qualified(self.module, call.func) or "").rpartition(".")[0] != "torch":
            return
        self.warn(
            call,
            f"storage of packed integers is allocated in {COMPUTE}, which is the compute dtype",
            [(dtype, "its shape is divided by the pack factor")],
            "the checkpoint's format says which integer holds the packed values",
        )

    def _borrowed(self, call: ast.Call) -> None:
        """A cast or a product that takes the stored weight for a tensor of the compute dtype."""
        weight = borrowed_weight(call)
        owner = self.module.enclosing_class(call)
        if weight is None or owner is None or is_excused(self.module, call):
            return
        path = path_through_alias(self.module, weight.value)
        layer = packed_layer(self.project.class_of(self.module, owner), path) if path else None
        if layer is None:
            return
        text, used = ast.unparse(weight), f"`{ast.unparse(call.func)}` is handed it as it is stored"
        self.warn(
            weight,
            f"{text} is what a packed {layer.class_name} stores, not a weight of its compute dtype",
            [layer.evidence, (call, used)],
            f"call the layer for a product, and cast to its {COMPUTE}",
        )

    def _layer(self, cls: ClassRef, read: ast.Attribute) -> PackedLayer | None:
        """The layer whose stored weight is asked for its dtype, if that may be packed."""
        layer, module = layer_read(read), module_read(read)
        if layer is not None:
            path = path_through_alias(self.module, layer)
            return packed_layer(cls, path) if path else None
        path = path_through_alias(self.module, module) if module is not None else None
        if path is None:
            return None
        itself = packed_layer(cls, path) if path else None
        if itself is not None:
            return itself
        owners = owners_of(cls, path) if path else [cls]
        first = first_parameter(owners[0]) if isinstance(owners, list) and len(owners) == 1 else None
        return first if isinstance(first, PackedLayer) else None

    def _fix(self, cls: ClassRef, read: ast.Attribute, layer: PackedLayer) -> tuple[Fix | None, str | None]:
        if layer_read(read) is None:
            return None, "the module's own model dtype has to be named here"
        if isinstance(self.module.parents.get(read), ast.IfExp):
            return None, "the tests around it rely on the stored dtype as well"
        if not layer.computes:
            return None, f"not every class that the layer can have is seen to set {COMPUTE}"
        base = read.value.value if isinstance(read.value, ast.Attribute) else read.value
        if isinstance(base, ast.Attribute) and base.attr == "weight":
            base = base.value
        text = f"{self.module.text(base)}.{COMPUTE}"
        edit = Edit(*self.module.byte_range(read), text)
        safe = layer.own and not self._may_be_wrapped(cls, read)
        return Fix("safe" if safe else "unsafe", f"read {text}", (edit,)), None

    def _may_be_wrapped(self, cls: ClassRef, read: ast.Attribute) -> bool:
        """Whether the layer may stand inside a LoRA wrapper by the time of the read."""
        names = {c.node.name for c in cls.mro} | {b.rpartition(".")[2] for b in cls.unresolved_bases}
        return names >= WRAPPED_FOR_LORA and self.project.flows(self.module).scope_at(read) is not Scope.BUILD


__getattr__ = codemod_command(
    __name__,
    "Read the dtype a quantisable layer computes in instead of the one its weight is stored in.",
)
