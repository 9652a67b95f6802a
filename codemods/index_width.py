"""An integer index whose width is left open, or is the other one, where a kernel expects 32 or 64 bits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

import libcst as cst

from codemods.support.facts import facts
from dtypefix.analysis import index_widths as widths
from dtypefix.analysis.index_widths import INHERIT, TO_DEVICE, has_keyword, suspects, target_of, width
from dtypefix.analysis.kernels import is_kernel, launched
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import Kind
from dtypefix.analysis.scopes import last_name
from dtypefix.edits.arguments import keyword_edit
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Edit, Evidence, Fix, Level

FLOATING = re.compile(r"(^|_)(weights?|scales?|bias|logits|probs|hidden_states)$")
OPS = frozenset(row["op"].rpartition(".")[2] for row in facts("index_widths")["index_width"])


class IndexWidth(Rule):
    """Reports the place where the width is left open."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Conditional values in kernels and their launches, and the calls that may take or make an index."""
        return suspects(module, OPS)

    def visit_IfExp(self, node: cst.IfExp) -> None:
        """A literal beside a load, or two widths for one argument of a kernel."""
        choice = self.context.ast_of(node)
        if not isinstance(choice, ast.IfExp):
            return
        function, parent = self.module.enclosing_function(choice), self.module.parents[choice]
        if function is not None and is_kernel(function):
            if found := widths.literal_beside_load(choice, function):
                pointer, literal, load = found
                message = f"this choice compiles while `{pointer}` points to int32 only: the literal is int32"
                steps = [(load, f"the width here is that of `{pointer}`"), (literal, "a literal is int32")]
                self._report(
                    choice,
                    message,
                    steps,
                    f"use `tl.zeros([], dtype={pointer}.dtype.element_ty)` for the literal",
                )
        elif isinstance(parent, ast.Call) and (kernel := launched(parent)):
            self._two_widths(choice, kernel)

    def visit_Call(self, node: cst.Call) -> None:
        """A call that takes an index or makes one."""
        call = self.context.ast_of(node)
        function = self.module.enclosing_function(call) if isinstance(call, ast.Call) else None
        if not isinstance(call, ast.Call) or function is None:
            return
        name = last_name(call.func)
        if name in INHERIT:
            self._inherited(call, function)
        elif name in TO_DEVICE and len(call.args) in (1, 2) and not has_keyword(call, "out"):
            if not has_keyword(call, "dtype") and (
                source := widths.array_from_elsewhere(function, call.args[0])
            ):
                message = (
                    f"`{ast.unparse(call.args[0])}` is copied with whatever width numpy gave it elsewhere"
                )
                pin = "" if name == "from_numpy" else "torch.int32"
                self._report(call, message, [(source, "no dtype is given here")], "name the dtype", pin)
        elif name == "tensor" and call.args and not has_keyword(call, "dtype"):
            if made := widths.addresses(function, call.args[0]):
                message = "addresses become int64 here; kernels read uint64, and the upper half does not fit"
                self._report(call, message, [(made, "this is an address")], "pass dtype=", "torch.uint64")
        elif index := widths.floating_index(call, target_of(self.module.parents[call])):
            message = f"`{index}` is made without a dtype, so that it is floating"
            self._report(
                call, message, [(call, "the default dtype is a floating one")], "pass dtype=", "torch.int64"
            )
        for row in self.project.knowledge.table("index_width"):
            if f".{ast.unparse(call.func)}".endswith("." + row["op"]):
                self._contract(call, row)

    def _two_widths(self, choice: ast.IfExp, kernel: str) -> None:
        arms = (choice.body, choice.orelse)
        values = [self.project.flows(self.module).value(arm) for arm in arms]
        known = [width(value) for value in values]
        if not any(known) or known[0] == known[1] or any(FLOATING.search(ast.unparse(arm)) for arm in arms):
            return
        if all(v.origins and not v.has(Kind.SCALAR) and not v.must_be(Kind.UNKNOWN) for v in values):
            steps = [(arm, f"the integers are {v.describe()}") for arm, v in zip(arms, values, strict=True)]
            message = f"{kernel} gets {values[0].describe()} or {values[1].describe()} for one pointer"
            self._report(choice, message, steps, "cast the one whose width is known to what the kernel reads")

    def _inherited(self, call: ast.Call, function: FunctionNode) -> None:
        found = widths.inherited_counter(self.project.flows(self.module), call, function)
        if found is None or not isinstance(call.func, ast.Attribute):
            return
        target, kernel, place = found
        made, text = call.func.attr.removeprefix("new_"), ast.unparse(call.func.value)
        shape = ", ".join(ast.unparse(a) for a in call.args)
        new = f"torch.{made}({shape}, dtype=torch.int32, device={text}.device)"
        message = f"`{target}` has the width of `{text}`, but the kernel stores int32 counters in it"
        steps = [(kernel, f"`{place}` is only given tl.arange values, which are int32")]
        edit = None if call.keywords else Edit(*self.module.byte_range(call), new)
        self._report(call, message, steps, "give it a dtype of its own", edit=edit)

    def _contract(self, call: ast.Call, row: dict[str, Any]) -> None:
        argument = next((k.value for k in call.keywords if k.arg == row["argument"]), None)
        if argument is None and row.get("position", len(call.args)) < len(call.args):
            argument = call.args[row["position"]]
        if isinstance(argument, ast.Tuple) and argument.elts:
            argument = argument.elts[0]
        if argument is None:
            return
        flows, must, name = self.project.flows(self.module), row["dtype"], ast.unparse(argument)
        value = flows.value(argument)
        found, reason = width(value), f"cast it to {must} where it comes in"
        if found and found != must:
            steps = [(argument, f"{row['op']} requires {must}: {row['cite']}")]
            message = f"{row['op']} reads `{name}` as {must}, and it is {found}"
            self._report(argument, message, steps, reason, level="error")
        elif (
            row.get("decided") == "elsewhere" and value.only is not None and value.only.kind is Kind.PARAMETER
        ):
            place = widths.entry(self.module, flows, argument, value.only.detail, must)
            if place is not None:
                message = f"{row['op']} reads `{name}` as {must}, and the dispatcher chose its width"
                self._report(place, message, [(argument, f"{must} is required: {row['cite']}")], reason)

    def _report(
        self,
        at: ast.AST,
        message: str,
        steps: list[tuple[Any, str]],
        reason: str,
        pin: str = "",
        *,
        edit: Edit | None = None,
        level: Level = "warning",
    ) -> None:
        """Report a place; ``pin`` is a dtype to pass as a new last keyword, where that is simple."""
        known = self.project.imports(self.module).from_modules().get("torch") == "torch"
        if pin and known and isinstance(at, ast.Call) and (at.args or at.keywords):
            edit = keyword_edit(self.module, at, "dtype", pin, self.project.line_length(self.module))
        fix = Fix("unsafe", f"make it {pin or 'torch.int32'}", (edit,)) if edit else None
        evidence = [Evidence(self.module.path, node.lineno, text) for node, text in steps]
        self.context.report(
            at,
            level=level,
            message=message,
            evidence=evidence,
            fix=fix,
            unfixed_reason=None if fix else reason,
        )


__getattr__ = codemod_command(
    __name__,
    "Fix the width of integer indices that kernels read.",
)
