"""Arguments of custom and third-party operators whose dtype breaks the operator's contract."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cached_property

import libcst as cst

from codemods.support.kernel_argument_call import Bound, Fault
from codemods.support.kernel_argument_checks import cast_argument, faults, hands_on
from codemods.support.kernel_argument_tables import (
    BITS,
    CONTRACTS,
    KNOWN_DTYPES,
    PROJECTION,
    PROJECTS,
    ROLES,
    may_be_operator,
    projects_cache,
)
from dtypefix.analysis.bitcasts import bit_read, positional
from dtypefix.analysis.evidence import evidence_at, evidence_of
from dtypefix.analysis.flow import Flow
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.engine.rule import Rule, RuleContext, codemod_command


class KernelArgumentDtype(Rule):
    """Compares what operators ask of their arguments with what the dtype flow knows of them."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Calls of operators with a contract, and projections in functions that read the KV cache."""
        reads = bit_read(module)
        for call in module.nodes(ast.Call):
            if (
                may_be_operator(call)
                or getattr(call.func, "id", None) in reads
                or projects_cache(module, call)
            ):
                yield call

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self.bit_reads = bit_read(self.module)

    @cached_property
    def calls(self) -> Mapping[str, list[ast.Call]]:
        """The calls of operators in this file, by the operator's name."""
        found: dict[str, list[ast.Call]] = {}
        for call in self.module.nodes(ast.Call):
            for contract in CONTRACTS.named(call)[:1]:
                found.setdefault(contract.op, []).append(call)
        return found

    def visit_Call(self, node: cst.Call) -> None:
        """Examine one call."""
        name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        if not isinstance(name, cst.Name):
            return
        reads = self.bit_reads.get(name.value)
        if reads is None and name.value not in CONTRACTS.by_op and not name.value.endswith(PROJECTION):
            return
        call = self.context.ast_of(node)
        if not isinstance(call, ast.Call):
            return
        flow = self.project.flows(self.module).at(call)
        if name.value.endswith(PROJECTION):
            self._projection(call, flow)
            return
        if reads is not None:
            self._bits(call, flow, reads)
            return
        callee = flow.callee(call)
        if "." not in callee:
            callee = self.project.qualified(self.module, call.func) or callee
        contract = CONTRACTS.of_call(call, callee)
        given = contract.bind(call) if contract is not None else None
        if contract is None or given is None or hands_on(self.module, call, CONTRACTS.by_op):
            return
        bound = Bound(call, contract, flow, ROLES, given, self.calls.get(name.value, ()), KNOWN_DTYPES)
        for fault in faults(bound):
            self._report(fault, bound)

    def _projection(self, call: ast.Call, flow: Flow) -> None:
        """A projection of what was read from the KV cache, still in the dtype of the cache."""
        if not call.args or not projects_cache(self.module, call):
            return
        value = flow.value(call.args[0])
        bound = Bound(call, PROJECTS, flow, ROLES, {"input": call.args[0]})
        if bound.cached("input") and not bound.is_tested("input"):
            self.context.report(
                call.args[0],
                level="warning",
                message=f"`{ast.unparse(call.func)}` is given what the KV cache holds, in its dtype",
                evidence=[
                    *evidence_of(value, self.module),
                    evidence_at(call, self.module, "and is projected here"),
                ],
                unfixed_reason="the layer's compute dtype has to be found: cast to that of the query, say",
            )

    def _bits(self, call: ast.Call, flow: Flow, reads: Mapping[str, int]) -> None:
        """An argument that a kernel of this file reinterprets bit by bit, in whatever dtype it came."""
        function = self.module.definitions.get(ast.unparse(call.func))
        if not isinstance(function, FunctionNode):
            return
        bound = Bound(call, BITS, flow, ROLES, positional(function, call))
        for name, size in reads.items():
            if name.endswith("_cache"):
                continue
            if name in bound.given and bound.plain(name) and not bound.is_tested(name):
                fault = Fault(
                    bound.given[name],
                    "warning",
                    f"`{function.name}` hands `{name}` to a kernel that reads its bits as {size} bytes, "
                    "and nothing makes sure of that width",
                    (bound.value(name),),
                    None,
                    "cast it, or the value that the kernel loads, to the dtype that is meant",
                )
                self._report(fault, bound)

    def _report(self, fault: Fault, bound: Bound) -> None:
        evidence = [e for value in fault.values for e in evidence_of(value, self.module, 4)]
        evidence.append(evidence_at(bound.call, self.module, f"contract: {bound.contract.cite}"))
        fix, reason = cast_argument(self.project, fault, bound)
        self.context.report(
            fault.argument,
            level=fault.level,
            message=fault.message,
            evidence=evidence,
            fix=fix,
            unfixed_reason=reason,
        )


__getattr__ = codemod_command(
    __name__,
    "Match the dtypes of operator arguments to the operators' contracts.",
)
