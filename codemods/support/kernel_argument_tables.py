"""The contracts and names that the rule ``kernel-argument-dtype`` goes by, and what they pick out."""

from __future__ import annotations

import ast

from codemods.support.facts import facts
from dtypefix.analysis.contracts import Contract, Contracts
from dtypefix.analysis.module import FunctionNode, Module

_FACTS = facts("op_contracts")
CONTRACTS = Contracts.of(_FACTS["contract"])
ROLES = _FACTS["argument_roles"]
PROJECTION = tuple(ROLES["projections"])
BITS = Contract.of({"op": "launcher", "cite": "a Triton kernel of this file loads and bit-casts the value"})
PROJECTS = Contract.of({"op": "projection", "params": ["input"], "cite": ROLES["cite"]})
KNOWN_DTYPES = _FACTS["known_dtypes"]


def may_be_operator(call: ast.Call) -> bool:
    """Whether the written name of a call can mean an operator with a contract."""
    contracts = CONTRACTS.named(call)
    if not contracts or isinstance(call.func, ast.Name) or all(not c.under for c in contracts):
        return bool(contracts)
    path = ast.unparse(call.func)
    return "ops." in path or any(c.fits(path) for c in contracts)


def projects_cache(module: Module, call: ast.Call) -> bool:
    """Whether a projection stands in a function that reads the KV cache."""
    if not isinstance(call.func, ast.Attribute) or not call.func.attr.endswith(PROJECTION):
        return False
    if not any(name.encode() in module.source for name in ROLES["cache_calls"]):
        return False
    function = module.enclosing_function(call)
    return function is not None and _reads_cache(function)


def _reads_cache(function: FunctionNode) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in ROLES["cache_calls"] for n in ast.walk(function))
