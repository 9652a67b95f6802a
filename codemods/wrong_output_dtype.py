"""A result leaves a function in another dtype than its consumer was promised."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from dtypefix.analysis.evidence import evidence_of
from dtypefix.analysis.fakes import disagreements, registrations
from dtypefix.analysis.flow import Flow
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.module_inputs import RAW
from dtypefix.analysis.origins import Kind
from dtypefix.analysis.output_suspects import suspects
from dtypefix.analysis.outputs import follows, is_norm, late_reads, narrow_variance, unrestored
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.stand_ins import emptied_weight, stand_ins
from dtypefix.engine.rule import Rule, codemod_command

# The weights of these are stored in integers, and nobody asks them for the compute dtype.
FORMATS = re.compile(r"(^|/)quantization/")
REGISTER = frozenset({"direct_register_custom_op"})


class WrongOutputDtype(Rule):
    """Examines what each function returns and allocates for its result."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Functions with an upcast, a placeholder, a fake twin or a quantised name in them."""
        yield from (function for function, _ in suspects(module, REGISTER))

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Examine one function."""
        function = self.context.ast_of(node)
        if not isinstance(function, FunctionNode):
            return
        why = self._suspects.get(function, frozenset())
        flow = self.project.flows(self.module).function(function)
        if "fake" in why:
            for real, fake in registrations(self.module, REGISTER):
                if fake is function:
                    self._fake(self.project.flows(self.module).function(real), flow)
        if "empty" in why:
            self._emptied(function)
            self._placeholders(function, flow)
        if "upcast" in why:
            self._returns(function, flow)
        if "rebound" in why:
            self._rebound(function, flow)
        if "native" in why:
            self._native(function, flow)

    @cached_property
    def _suspects(self) -> dict[FunctionNode, frozenset[str]]:
        return dict(suspects(self.module, REGISTER))

    def visit_Call(self, node: cst.Call) -> None:
        """Examine a kernel whose result takes its query's dtype."""
        call = self.context.ast_of(node)
        rows = self.project.knowledge.table("output_follows")
        found = follows(call, rows) if isinstance(call, ast.Call) else None
        if found is None or not isinstance(call, ast.Call):
            return
        row, given = found
        value = self.project.flows(self.module).value(given)
        if value.has(Kind.MODEL) or value.unknown:
            return
        name, argument = last_name(call.func), row["argument"]
        self.warn(
            call.func,
            f"{name} returns the dtype of its {argument}, which is fp8 once that is quantised",
            [
                *evidence_of(value, self.module, 3),
                (call, f"nothing but {argument} decides"),
            ],
            f"pass {row['unless'][1]}, the model dtype",
        )

    def _emptied(self, function: FunctionNode) -> None:
        if FORMATS.search(self.module.path):
            return
        for node in ast.walk(function):
            target = emptied_weight(node) if isinstance(node, ast.Assign | ast.Call) else None
            if target is None or self.module.enclosing_function(node) is not function:
                continue
            self.warn(
                node,
                f"{target} is emptied without a dtype, so {target}.dtype becomes the default dtype",
                [(node, f"whoever asks {target}.dtype for the compute dtype gets float32")],
                "give the placeholder the dtype that the weight had",
            )

    def _placeholders(self, function: FunctionNode, flow: Flow) -> None:
        for found in stand_ins(function):
            like, made = flow.value(found.dtype), flow.value(found.made)
            if like.only is None or like.only.kind is not Kind.PARAMETER or made.same_dtype(like):
                continue
            if self.module.enclosing_function(found.empty) is not function:
                continue
            # Layers mostly keep the dtype of activations, never that of raw features.
            if found.joined and not RAW.search(like.only.detail):
                continue
            self.warn(
                found.empty,
                f"the empty {found.name} has its input's dtype, the other arm that of the layer's output",
                [
                    (found.made, f"{found.name} is what the layer returns here"),
                    (found.empty, f"and {like.describe()} here"),
                ],
                "which dtype the layer returns has to be named",
            )

    def _returns(self, function: FunctionNode, flow: Flow) -> None:
        for expr, value, source, why in unrestored(function, flow):
            self.warn(
                expr,
                f"{ast.unparse(expr)[:60]} is returned in float32, {why}",
                [*evidence_of(value, self.module), (expr, "it leaves the function like that")],
                f"capture {source}.dtype before the upcast and cast back to it",
            )

    def _rebound(self, function: FunctionNode, flow: Flow) -> None:
        for node, value, literal in late_reads(function, flow):
            name = node.id
            self.warn(
                node,
                f"the dtype of {name} is read after it was rebound to {literal}, not its input's dtype",
                [
                    *evidence_of(value, self.module),
                    (node, f"which is no longer the dtype that {name} came in with"),
                ],
                f"capture {name}.dtype before it is rebound",
            )

    def _fake(self, real: Flow, fake: Flow) -> None:
        for expr, mine, theirs in disagreements(real, fake):
            kernel = (real.node, "this is the kernel")
            self.warn(
                expr,
                f"the fake returns {mine.describe()}, the kernel {theirs.describe()}",
                [*evidence_of(mine, self.module, 3), kernel],
                "the fake has to give the kernel's dtype",
            )

    def _native(self, function: FunctionNode, flow: Flow) -> None:
        owner = self.module.parents.get(function)
        if not isinstance(owner, ast.ClassDef) or not is_norm(owner):
            return
        found = narrow_variance(function, flow)
        if found is not None:
            node, value, twin = found
            self.warn(
                node,
                f"{owner.name}.{function.name} takes the variance in its input's dtype, others in float32",
                [*evidence_of(value, self.module), (twin, "a twin casts first")],
                "cast the input to float32 and the result back",
            )


__getattr__ = codemod_command(__name__, "Find results that leave a function in another dtype than promised.")
