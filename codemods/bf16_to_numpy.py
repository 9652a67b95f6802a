"""``.numpy()`` on a tensor that can be bfloat16, which numpy does not have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import libcst as cst

from dtypefix.analysis.evidence import evidence_at, evidence_of
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.naming import subject
from dtypefix.analysis.origins import Form, Kind, Value
from dtypefix.analysis.scopes import last_name
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Edit, Fix

MODEL_TENSOR = re.compile(
    r"(^|_)(hidden(_states?)?|embeds?|embeddings?|logits?|weights?|params?|"
    r"state_dict|features?|pooled|activations?)(_|$)"
)
WHOLE = re.compile(
    r"(^|_)(cu|num|ids?|ind(ex|ices)|len(gth)?s?|lens|counts?|map|mask|scales?|slots?|checksum|shape|grid)(_|$)"
)
ARRAYS = ("array", "asarray")
BIT_VIEWS = re.compile(r"view\((dtype=)?torch\.u?int|untyped_storage|iinfo")
MODEL_KINDS = frozenset({Kind.MODEL, Kind.LAYER_COMPUTE, Kind.LAYER_WEIGHT, Kind.CHECKPOINT})


class Bf16ToNumpy(Rule):
    """Asks for every conversion to numpy where the tensor's dtype comes from."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Conversions of things that are named like activations or weights, or made in bfloat16."""
        for node in module.nodes():
            if isinstance(node, ast.Call) and _converted(node) is not None:
                yield node

    def visit_Call(self, node: cst.Call) -> None:
        """Examine one conversion."""
        if not isinstance(node.func, cst.Attribute) or node.func.attr.value not in ("numpy", *ARRAYS):
            return
        call = self.context.ast_of(node)
        tensor = _converted(call) if isinstance(call, ast.Call) else None
        if tensor is None or not isinstance(call, ast.Call):
            return
        value = self.project.flows(self.module).value(tensor)
        certain = value.literal == "bfloat16"
        if not certain and not self._can_be_bf16(tensor, value):
            return
        end = self.module.byte_range(tensor)[1]
        name = ast.unparse(tensor)
        self.context.report(
            call,
            level="error" if certain else "warning",
            message=f"{name if len(name) < 60 else 'a tensor'} can be bfloat16, which numpy does not have",
            evidence=[
                *evidence_of(value, self.module),
                evidence_at(call, self.module, f"numpy() gets {value.describe()}"),
            ],
            fix=Fix("unsafe", "convert to float32 first", (Edit(end, end, ".float()"),)),
        )

    def _can_be_bf16(self, tensor: ast.expr, value: Value) -> bool:
        if value.form not in (Form.TENSOR, Form.ANY):
            return False
        if any(o.kind is Kind.LITERAL and o.detail != "bfloat16" for o in value.origins):
            return False
        if any(o.kind in MODEL_KINDS for o in value.origins):
            return True
        name = _name(tensor)
        if WHOLE.search(name) or not MODEL_TENSOR.search(name):
            return False
        function = self.module.enclosing_function(tensor)
        return function is not None and not _handles(self.module, function, name)


def _converted(call: ast.Call) -> ast.expr | None:
    """``x`` of ``x.numpy()``, or of ``np.asarray(x)`` for a tensor, without a cast or a view on the way."""
    func = call.func
    if not isinstance(func, ast.Attribute):
        return None
    tensor = func.value
    if func.attr in ARRAYS and ast.unparse(tensor) in ("np", "numpy") and len(call.args) == 1:
        tensor = call.args[0]
        if not isinstance(tensor, ast.Call) or last_name(tensor.func) not in ("cpu", "detach"):
            return None
    elif func.attr != "numpy" or call.args:
        return None
    text = ast.unparse(tensor)
    if (
        re.search(r"\.(float|int|long|half|double|bool|to|type|view|byte)\((?!['\"]cpu)[^)]", text)
        or ".float()" in text
    ):
        return None
    return tensor


def _name(tensor: ast.expr) -> str:
    """The name of what is converted; a subscript by a string is named by it."""
    inner = tensor
    while isinstance(inner, ast.Call | ast.Subscript | ast.Attribute):
        if isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant):
            return str(inner.slice.value)
        if isinstance(inner, ast.Attribute) and not isinstance(
            inner.value, ast.Call | ast.Subscript | ast.Attribute
        ):
            break
        inner = inner.func if isinstance(inner, ast.Call) else inner.value
    return subject(tensor)


def _handles(module: Module, function: FunctionNode, name: str) -> bool:
    """Whether the function looks at the dtype of what it converts, or takes its bits."""
    text = module.text(function)
    return bool(re.search(rf"\b{re.escape(name)}\.dtype\b|bfloat16", text) or BIT_VIEWS.search(text))


__getattr__ = codemod_command(__name__, "Convert to float32 before numpy().")
