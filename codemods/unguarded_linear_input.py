"""A tensor whose dtype something else decided reaches a layer or a matrix product uncast."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from dtypefix.analysis.evidence import evidence_of
from dtypefix.analysis.flow import Flow
from dtypefix.analysis.module import Module
from dtypefix.analysis.module_inputs import (
    ModuleCall,
    callers_cast,
    casts_itself,
    dtype_read,
    is_raw,
    module_calls,
    wanted_dtype,
)
from dtypefix.analysis.operands import (
    Product,
    clash,
    handed_on,
    in_lora,
    products,
    states_of_another,
    uncast_delta,
)
from dtypefix.analysis.witness import path_of
from dtypefix.edits.cast import cast_expression
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Applicability, Fix

STATES = "hidden_states"


class UnguardedLinearInput(Rule):
    """Looks at what reaches submodules, matrix products and the sum of a LoRA layer."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Calls of submodules with raw data in classes that show a dtype for it, products, LoRA sums."""
        for calls in module_calls(module).values():
            paths = [c.path for c in calls]
            for call in calls:
                if dtype_read(call.method, call.path) or paths.count(call.path) > 1:
                    yield call.call
        lora = b"lora" in module.source.lower()
        yield from handed_on(module, STATES)
        for node in module.nodes(ast.Call, ast.BinOp):
            if any(True for _ in products(node)) or (lora and in_lora(module, node)):
                yield node

    def visit_Call(self, node: cst.Call) -> None:
        """Examine what a call of a submodule, or of a matrix product, is given."""
        call = self.context.ast_of(node)
        if not isinstance(call, ast.Call):
            return
        found = self._module_calls.get(call)
        if found is not None:
            self._module(*found)
        for product in products(call):
            self._product(call, product)
        self._foreign(call)
        if in_lora(self.module, call):
            self._delta(call)

    def visit_BinaryOperation(self, node: cst.BinaryOperation) -> None:
        """Examine ``a @ b``, and the sum of a LoRA layer."""
        found = self.context.ast_of(node)
        if isinstance(found, ast.BinOp):
            for product in products(found):
                self._product(found, product)
            if in_lora(self.module, found):
                self._delta(found)

    @cached_property
    def _module_calls(self) -> dict[ast.Call, tuple[ast.ClassDef, ModuleCall, list[ModuleCall]]]:
        by_class = module_calls(self.module)
        return {c.call: (owner, c, calls) for owner, calls in by_class.items() for c in calls}

    def _flow(self, node: ast.AST) -> Flow:
        return self.project.flows(self.module).at(node)

    def _module(self, owner: ast.ClassDef, found: ModuleCall, calls: list[ModuleCall]) -> None:
        """A submodule gets raw data, although the class shows the dtype that it wants."""
        value = self._flow(found.call).value(found.argument)
        cls = self.project.class_of(self.module, owner)
        casts = casts_itself(cls, found.path)
        if not is_raw(value) or casts:
            return
        if callers_cast(self.project.flows(self.module), owner, found, value):
            return
        wanted = wanted_dtype(self.project.flows(self.module), found, calls, resolved=casts is not None)
        if wanted is None:
            return
        dtype, place, shows, why = wanted
        layer = "self." + ".".join(found.path)
        text = ast.unparse(dtype) if isinstance(dtype, ast.Attribute) else ""
        fix = None
        if text.startswith("self.") and isinstance(found.argument, ast.Name | ast.Subscript | ast.Attribute):
            fix = self._cast(found.argument, text)
        self.warn(
            found.call,
            f"{layer} gets {ast.unparse(found.argument)[:50]} in whatever dtype it came in, {why}",
            [*evidence_of(value, self.module), (found.call, "it is handed on here"), (place, shows)],
            "cast it as the sibling does",
            fix,
        )

    def _product(self, node: ast.expr, product: Product) -> None:
        """Both operands of a product are known, and cannot be kept in one dtype."""
        flow = self._flow(node)
        left, right = flow.value(product.left), flow.value(product.right)
        found = clash(self.project, self.module, product, left, right)
        if found is None:
            return
        fixed, given, literal = found
        fix = None
        if isinstance(given, ast.Name) and isinstance(fixed, ast.Name | ast.Call):
            fix = self._cast(fixed, f"{given.id}.dtype")
        self.warn(
            node,
            f"{ast.unparse(fixed)[:50]} is {literal}, {ast.unparse(given)[:50]} whatever it came in as",
            [
                *evidence_of(flow.value(fixed), self.module, 3),
                *evidence_of(flow.value(given), self.module, 3),
                (node, "torch refuses operands of two dtypes here"),
            ],
            "cast one operand to the other's dtype",
            fix,
        )

    def _foreign(self, call: ast.Call) -> None:
        """A layer gets the states of another model."""
        path = path_of(call.func)
        if path is None or path[-1].startswith("_") or STATES.encode() not in self.module.source:
            return
        found = states_of_another(self._flow(call), call, self.project.knowledge.table("foreign"))
        if found is None or self.module.enclosing_class(call) is None:
            return
        argument, what = found
        layer = ast.unparse(call.func)
        norm = "norm" in layer.rpartition(".")[2].lower()
        fix = self._cast(argument, f"{layer}.weight.dtype") if norm else None
        self.warn(
            call,
            f"{layer} gets {what} without a cast",
            [(argument, f"these are {what}, in that model's dtype")],
            "cast them to the dtype that the layer computes in",
            fix,
        )

    def _cast(self, expr: ast.expr, dtype: str, sure: Applicability = "unsafe") -> Fix:
        return Fix(sure, f"cast to {dtype}", cast_expression(self.module, expr, dtype))

    def _delta(self, node: ast.expr) -> None:
        """A LoRA layer adds its delta to the base layer's output."""
        found = uncast_delta(self._flow(node), node)
        if found is None:
            return
        out, delta = found
        fix = None
        if isinstance(out, ast.Name) and isinstance(delta, ast.Name):
            fix = self._cast(delta, f"{out.id}.dtype", "safe")
        self.warn(
            node,
            f"{ast.unparse(delta)} widens what {ast.unparse(out)} has: it has the dtype of the LoRA path",
            [(node, "the sum is promoted to the wider of the two dtypes")],
            "cast the delta to the base output's dtype",
            fix,
        )


__getattr__ = codemod_command(__name__, "Cast what reaches a layer to the dtype that it computes in.")
