"""bfloat16 or float16 written out where the model's dtype is meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from dtypefix.analysis.carried import carried_dtype, partner_dtype
from dtypefix.analysis.literal_dtype import (
    HalfLiteral,
    Role,
    asks_first,
    half_literal,
    half_nodes,
    ignores_parameter,
)
from dtypefix.analysis.module import Module
from dtypefix.analysis.reaching import parameter_names
from dtypefix.edits.arguments import drop_argument
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Edit, Evidence, Fix

MODELS = re.compile(r"(^|/)(models|layers)/(?!.*(quantization|fused_moe|attention)/)")
KERNELS = re.compile(r"(^|/)(ops|kernels?|cute\w*|tests?)/|warmup|kernel|moe|sparse")
METHODS = re.compile(r"(^|/)quantization/")
SKIP = re.compile(r"load|process_weights|pack|warmup|dummy|profile|dequant|fake|fp8|fp4|int8|_bf16|_fp16")
LAYER = re.compile(r"(Linear|Norm|Embedding|LMHead|Conv\w*|get_rope|super\(\)\.__init__)$")
# More literals than this, and the whole file is written for one dtype.
MOST = 4


class HardCodedHalf(Rule):
    """Reports the literal."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Literals in model and layer code, in quantisation methods, and in operands of ``tl.dot``."""
        return [literal.at for literal, _ in _literals(module)]

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Examine one literal."""
        self._examine(node)

    def visit_Name(self, node: cst.Name) -> None:
        """Examine one literal that was imported by its name."""
        if node.value in ("bfloat16", "float16", "half"):
            self._examine(node)

    def visit_Call(self, node: cst.Call) -> None:
        """Examine one ``.half()`` or ``.bfloat16()``."""
        if isinstance(node.func, cst.Attribute) and not node.args:
            self._examine(node)

    def _examine(self, node: cst.CSTNode) -> None:
        at = self.context.ast_of(node)
        if at is not None and at in self._hazards:
            self._report(*self._hazards[at])

    @cached_property
    def _hazards(self) -> dict[ast.AST, tuple[HalfLiteral, str]]:
        return {literal.at: (literal, why) for literal, why in _literals(self.module)}

    def _report(self, literal: HalfLiteral, why: str) -> None:
        at, path = literal.at, self.module.path
        evidence = [Evidence(path, at.lineno, why)]
        carried = carried_dtype(self.module, at)
        if carried is not None:
            text = carried.arg if isinstance(carried, ast.arg) else ast.unparse(carried)
            evidence.insert(0, Evidence(path, carried.lineno, f"`{text}` brings the model's dtype here"))
        fix = self._fix(literal)
        self.context.report(
            at,
            level="warning",
            message=f"{literal.text} is written out {literal.role}: no other --dtype matches it",
            evidence=evidence,
            fix=fix,
            unfixed_reason=None if fix else "no expression here is known to hold the model's dtype",
        )

    def _fix(self, literal: HalfLiteral) -> Fix | None:
        function, call = literal.function, literal.call
        if call is None:
            return None
        keyword = next((k for k in call.keywords if k.value is literal.at), None)
        if literal.role in (Role.PARAMETER, Role.ARGUMENT) and keyword is not None:
            plain = literal.role is Role.PARAMETER or ast.unparse(call.func).endswith("nn.Linear")
            if plain and function.name == "__init__":
                edit = drop_argument(self.module, call, keyword)
                return Fix("unsafe", "drop it: the model loader has set the default dtype", (edit,))
        if literal.role in (Role.PARAMETER, Role.ALLOCATION):
            handed = "params_dtype" in parameter_names(function)
            name = "params_dtype" if handed else partner_dtype(self.module, call)
            if name is not None:
                return Fix("unsafe", f"use {name}", (Edit(*self.module.byte_range(literal.at), name),))
        return None


def _literals(module: Module) -> list[tuple[HalfLiteral, str]]:
    """The literals of a file that are hazards, with the reason."""
    nodes = list(half_nodes(module))
    model = bool(MODELS.search(module.path)) and not KERNELS.search(module.path) and len(nodes) <= MOST
    found = []
    for node in nodes:
        literal = half_literal(module, node)
        why = _why(module, literal, model) if literal is not None else None
        if literal is not None and why is not None:
            found.append((literal, why))
    return found


def _why(module: Module, literal: HalfLiteral, model: bool) -> str | None:
    """Why a literal is a hazard, or None when it is right or nothing says otherwise."""
    function, owner = literal.function, module.enclosing_class(literal.at)
    if SKIP.search(function.name) or asks_first(module, literal.at):
        return None
    if literal.role is Role.DOT:
        by_pointer = ".element_ty" in module.text(function)
        return "the kernel takes its other dtypes from its pointers" if by_pointer else None
    if METHODS.search(module.path):
        return ignores_parameter(module, literal)
    if not model or owner is None or not owner.bases or "Process" in owner.name:
        return None
    building = function.name == "__init__" and literal.role is not Role.VARIABLE
    if literal.role is Role.DEFAULT:
        # What a cache stores is configured apart from the model's dtype.
        return "callers that leave it out get it" if building and "cache" not in literal.name else None
    if literal.role is Role.CAST:
        return None if building else "whatever arrives is cast to it"
    if literal.role is Role.ALLOCATION:
        scalar = literal.call is not None and ast.unparse(literal.call.func) == "torch.tensor"
        return "it meets tensors of the model's dtype" if scalar and not building else None
    callee = ast.unparse(literal.call.func) if literal.call is not None else ""
    if literal.role is Role.ARGUMENT and not LAYER.search(callee):
        return None
    return "it is decided here, not by the model's configuration" if building else None


__getattr__ = codemod_command(
    __name__,
    "Take the model's dtype where float16 or bfloat16 is written out.",
)
