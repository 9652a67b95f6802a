"""Arguments of custom and third-party operators whose dtype breaks the operator's contract."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cached_property

import libcst as cst

from codemods.facts import facts
from codemods.kernel_argument_call import Bound, Fault
from codemods.kernel_argument_checks import faults, hands_on
from dtypefix.analysis.bitcasts import bit_read, positional
from dtypefix.analysis.contracts import Contract, Contracts
from dtypefix.analysis.evidence import evidence_at, evidence_of
from dtypefix.analysis.flow import Flow
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.engine.rule import Rule, RuleContext, codemod_command
from dtypefix.findings import Edit, Fix

FACTS = facts("op_contracts")
CONTRACTS = Contracts.of(FACTS["contract"])
ROLES = FACTS["argument_roles"]
PROJECTION = tuple(ROLES["projections"])
BITS = Contract.of({"op": "launcher", "cite": "a Triton kernel of this file loads and bit-casts the value"})
PROJECTS = Contract.of({"op": "projection", "params": ["input"], "cite": ROLES["cite"]})


class KernelArgumentDtype(Rule):
    """Compares what operators ask of their arguments with what the dtype flow knows of them."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Calls of operators with a contract, and projections in functions that read the KV cache."""
        reads = bit_read(module)
        for node in module.nodes():
            if isinstance(node, ast.Call) and (
                _may_be_operator(node)
                or _projects_cache(module, node)
                or (isinstance(node.func, ast.Name) and node.func.id in reads)
            ):
                yield node

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self.bit_reads = bit_read(self.module)

    @cached_property
    def calls(self) -> Mapping[str, list[ast.Call]]:
        """The calls of operators in this file, by the operator's name."""
        found: dict[str, list[ast.Call]] = {}
        for node in self.module.nodes():
            if isinstance(node, ast.Call) and CONTRACTS.named(node):
                found.setdefault(CONTRACTS.named(node)[0].op, []).append(node)
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
        contract = CONTRACTS.of_call(call, flow.callee(call))
        given = contract.bind(call) if contract is not None else None
        if contract is None or given is None or hands_on(self.module, call):
            return
        bound = Bound(call, contract, flow, ROLES, given, self.calls.get(name.value, ()))
        for fault in faults(bound):
            self._report(fault, bound)

    def _projection(self, call: ast.Call, flow: Flow) -> None:
        """A projection of what was read from the KV cache, still in the dtype of the cache."""
        if not call.args or not _projects_cache(self.module, call):
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
        fix = None
        if fault.dtype is not None and isinstance(fault.argument, ast.Name | ast.Attribute | ast.Call):
            end = self.module.byte_range(fault.argument)[1]
            fix = Fix("unsafe", f"cast to {fault.dtype}", (Edit(end, end, f".to({fault.dtype})"),))
        self.context.report(
            fault.argument,
            level=fault.level,
            message=fault.message,
            evidence=evidence,
            fix=fix,
            unfixed_reason=None if fix else fault.reason,
        )


def _may_be_operator(call: ast.Call) -> bool:
    """Whether the written name of a call can mean an operator with a contract."""
    contracts = CONTRACTS.named(call)
    if not contracts or isinstance(call.func, ast.Name) or all(not c.under for c in contracts):
        return bool(contracts)
    path = ast.unparse(call.func)
    return "ops." in path or any(c.fits(path) for c in contracts)


def _projects_cache(module: Module, call: ast.Call) -> bool:
    """Whether a projection stands in a function that reads the KV cache."""
    if not isinstance(call.func, ast.Attribute) or not call.func.attr.endswith(PROJECTION):
        return False
    if not any(name.encode() in module.source for name in ROLES["cache_calls"]):
        return False
    function = module.enclosing_function(call)
    return function is not None and _reads_cache(function)


def _reads_cache(function: FunctionNode) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in ROLES["cache_calls"] for n in ast.walk(function))


__getattr__ = codemod_command(
    __name__,
    "Match the dtypes of operator arguments to the operators' contracts.",
)
