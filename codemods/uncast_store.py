"""A tensor is stored into places of another whose dtype something else decided."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import libcst as cst

from dtypefix.analysis.evidence import evidence_at, evidence_of
from dtypefix.analysis.mixed_loads import mixed_arguments
from dtypefix.analysis.module import Module
from dtypefix.analysis.naming import holds_activations, may_index, subject
from dtypefix.analysis.origins import Form, Kind
from dtypefix.analysis.stores import (
    SOURCE,
    callers_agree,
    disagree,
    imports_kernel_language,
    indexes_by_tensor,
    is_path,
    loaded_at,
    made_of,
    scaled_back,
    store_of,
)
from dtypefix.edits.cast import cast_argument, cast_expression
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Evidence, Fix


class UncastStore(Rule):
    """Compares both sides of each store that torch refuses when the dtypes differ."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Indexed stores between things that are named like activations, and dequantising casts."""
        if imports_kernel_language(module):
            return
        for node in module.nodes(ast.Assign, ast.Call):
            store = store_of(node)
            if store is not None:
                if not holds_activations(subject(store.target), subject(store.value)):
                    continue
                if not store.indices or any(may_index(i) for i in store.indices):
                    yield store.node
            elif isinstance(node, ast.Call) and (
                scaled_back(node) is not None or mixed_arguments(module, node)
            ):
                yield node

    def visit_Assign(self, node: cst.Assign) -> None:
        """Examine ``target[index] = value``."""
        if not isinstance(node.targets[0].target, cst.Subscript):
            return
        found = self.context.ast_of(node)
        if isinstance(found, ast.Assign):
            self._examine(found)

    def visit_Call(self, node: cst.Call) -> None:
        """Examine ``target.index_copy_(…)`` and its like, and casts of dequantised values."""
        launch = isinstance(node.func, cst.Subscript)
        if not launch and (
            not isinstance(node.func, cst.Attribute) or node.func.attr.value not in {"to", *SOURCE}
        ):
            return
        found = self.context.ast_of(node)
        if launch and isinstance(found, ast.Call):
            self._launched(found)
        elif isinstance(found, ast.Call):
            self._examine(found)
            if scaled_back(found) is not None:
                self._dequantised(found)

    def _examine(self, node: ast.Assign | ast.Call) -> None:
        store = store_of(node)
        if (
            store is None
            or not holds_activations(subject(store.target), subject(store.value))
            or self.module.enclosing_function(node) is None
        ):
            return
        flows = self.project.flows(self.module)
        if store.indices and not any(indexes_by_tensor(flows, index) for index in store.indices):
            return
        target, value = flows.value(store.target), made_of(flows.at(node), flows.value(store.value))
        if not disagree(target, value) or callers_agree(flows, store):
            return
        where, what = ast.unparse(store.target), ast.unparse(store.value)
        what = what if len(what) < 60 else "a tensor"
        fix = None
        if is_path(store.target):
            width, dtype = self.project.line_length(self.module), f"{where}.dtype"
            if isinstance(node, ast.Call):
                edits = cast_argument(self.module, node, store.value, dtype, width)
            else:
                edits = cast_expression(self.module, store.value, dtype, width)
            # What is not known to be a tensor may be a number, which torch stores as it is.
            tensors = target.form is value.form is Form.TENSOR
            fix = Fix("safe" if tensors else "unsafe", f"cast to {where}.dtype", edits)
        sure = target.must_be(Kind.LITERAL) and value.must_be(Kind.LITERAL)
        self.context.report(
            node,
            level="error" if sure else "warning",
            message=f"{what} is stored into {where} without a cast to its dtype",
            evidence=[
                *evidence_of(value, self.module),
                *evidence_of(target, self.module, 2),
                evidence_at(
                    store.value,
                    self.module,
                    f"the value has {value.describe()}, the target {target.describe()}: torch wants one",
                ),
            ],
            fix=fix,
            unfixed_reason=None if fix else "the target's dtype has no short name here",
        )

    def _dequantised(self, call: ast.Call) -> None:
        """A value multiplied by its scale in float32 and cast back to the dtype that it was loaded in."""
        line = loaded_at(self.project.flows(self.module).at(call), call)
        if line is not None:
            loaded = "the quantised value is loaded here, in the dtype of its pointer"
            self.warn(
                call,
                "a dequantised value is cast back to the dtype that it was loaded in",
                [
                    Evidence(self.module.path, line, loaded),
                    (call, "its scaled value is rounded to that dtype again"),
                ],
                "cast to the element type of the pointer that it is stored through",
            )

    def _launched(self, call: ast.Call) -> None:
        """A kernel that keeps loads through two pointers in one variable gets unrelated tensors."""
        flows = self.project.flows(self.module)
        for mixed in mixed_arguments(self.module, call):
            one, other = mixed.first, mixed.second
            if "weight" in subject(one) + subject(other) or not holds_activations(
                subject(one), subject(other)
            ):
                continue
            left, right = flows.value(one), flows.value(other)
            if not disagree(left, right):
                continue
            self.warn(
                one,
                f"{mixed.kernel.name} keeps {ast.unparse(one)} and {ast.unparse(other)} in one "
                "variable, and nothing keeps their dtypes equal",
                [
                    *evidence_of(left, self.module, 2),
                    *evidence_of(right, self.module, 2),
                    (mixed.kernel, f"`{mixed.variable}` is bound to loads through both pointers"),
                ],
                "cast one to the other's dtype before the launch, and the result back",
            )


__getattr__ = codemod_command(
    __name__,
    "Cast what is stored by index to the dtype of the tensor it is stored into.",
)
