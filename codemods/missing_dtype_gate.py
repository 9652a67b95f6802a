"""A choice of a kernel or a backend that never looks at the dtype, where its neighbours do."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import libcst as cst

from dtypefix.analysis import gates
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.walking import walk
from dtypefix.engine.rule import Rule, RuleContext, codemod_command

REGISTER = "register_replacement"


class MissingDtypeGate(Rule):
    """Reports the gate, or the return, that lacks the test."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._seen: set[ast.AST] = set()

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Selectors, eligibility tests, functions that set several gates, and fusions without a check."""
        for node in module.nodes(ast.FunctionDef, ast.Assign, ast.If, ast.Call):
            if isinstance(node, FunctionNode):
                several = len(list(gates.gates(node))) > 1
                if several or gates.selects(node) or gates.tests_tensor(node) is not None:
                    yield node
            elif isinstance(node, ast.Assign):
                if gates.admits_fused(node):
                    yield node
            elif isinstance(node, ast.If):
                if gates.by_head_size(node) is not None:
                    yield node
            elif isinstance(node, ast.Call) and last_name(node.func) == REGISTER:
                if b"extra_check=" in module.source and not gates.checked(node):
                    yield node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Examine one function."""
        function = self.context.ast_of(node)
        if not isinstance(function, FunctionNode):
            return
        if gates.selects(function):
            self._selector(function)
        tensor = gates.tests_tensor(function)
        if tensor is not None:
            self._eligibility(function, tensor)
        self._gates(function)

    def visit_If(self, node: cst.If) -> None:
        """A branch that picks a kernel by device and head size, in code that knows a dtype."""
        branch = self.context.ast_of(node)
        test = gates.by_head_size(branch) if branch is not None else None
        owner = (
            self.module.enclosing_class(branch) or self.module.enclosing_function(branch) if branch else None
        )
        if test is None or owner is None or "dtype" not in ast.unparse(owner):
            return
        self.warn(
            test,
            "the kernel is picked by device and head size; the dtype, which is known here, is not looked at",
            [(test, "no operand of this condition speaks of a dtype")],
            "the dtypes that the kernel takes are not known here",
        )

    def visit_Assign(self, node: cst.Assign) -> None:
        """A flag that admits a fused kernel by device and shape alone."""
        flag = self.context.ast_of(node)
        if not isinstance(flag, ast.Assign) or not gates.admits_fused(flag):
            return
        if "amd/" in self.module.path and "is_cuda()" in ast.unparse(flag.value):
            return  # never true there
        name = last_name(flag.targets[0])
        self.warn(
            flag,
            f"`{name}` admits a fused kernel by device and shape, whatever the model dtype is",
            [(flag, "no operand of this condition speaks of a dtype")],
            "the dtypes that the kernel takes are not known here",
        )

    def visit_Call(self, node: cst.Call) -> None:
        """A fusion that is registered without the check that its neighbours have."""
        name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        if not isinstance(name, cst.Name) or name.value != REGISTER:
            return
        call = self.context.ast_of(node)
        owner = self.module.enclosing_class(call) if call is not None else None
        if not isinstance(call, ast.Call) or gates.checked(call) or owner is None or owner in self._seen:
            return
        others = (n for n in self.module.nodes() if isinstance(n, ast.Call))
        other = next(
            (n for n in others if last_name(n.func) == REGISTER and "dtype" in gates.checked(n)), None
        )
        mixed = self.project.knowledge.table("half_only")["mixed_norms"]
        if other is None or "norm" not in owner.name.lower() or any(name in owner.name for name in mixed):
            return
        self._seen.add(owner)
        self.warn(
            call,
            f"this fusion of a norm is registered without {gates.checked(other)}, which its neighbours have",
            [(other, f"a neighbour passes extra_check={gates.checked(other)}")],
            "the check must fit the operands of this pattern",
        )

    def _selector(self, function: FunctionNode) -> None:
        backends = self.project.knowledge.table("half_only")["backends"]
        for node in walk(function):
            if not isinstance(node, ast.Return) or not isinstance(node.value, ast.Attribute):
                continue
            if node.value.attr not in backends or gates.read_on_the_way(self.module, node, function):
                continue
            self.warn(
                node,
                f"{node.value.attr} takes half precision only, and nothing on the way here looks at `dtype`",
                [
                    (function, "the caller says which dtype it needs"),
                    (node, f"{node.value.attr} has no float32 kernels"),
                ],
                "which backend takes float32 on this platform is not known here",
            )

    def _eligibility(self, function: FunctionNode, tensor: str) -> None:
        if gates.looks_at_dtype(self.module, function, tensor):
            return
        exits = sorted(
            (n for n in walk(function) if isinstance(n, ast.Return) and gates.is_false(n.value)),
            key=lambda n: n.lineno,
        )
        self.warn(
            exits[0],
            f"{function.name} looks at the shape and layout of `{tensor}`, and never at its dtype",
            [(function, f"`{tensor}` can have any dtype here")],
            "the dtypes that the kernel takes are not known here",
        )

    def _gates(self, function: FunctionNode) -> None:
        for gate, beside in gates.unlike(function):
            name, other = last_name(gate.targets[0]), last_name(beside.targets[0])
            self.warn(
                gate,
                f"`{name}` admits a kernel whatever the dtype is; `{other}` beside it looks",
                [(beside, f"`{other}` tests a dtype")],
                "the dtypes that the kernel takes are not known here",
            )


__getattr__ = codemod_command(
    __name__,
    "Report choices of a kernel that never look at the dtype.",
)
