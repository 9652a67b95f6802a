"""Query and KV cache in one call: whether both have the dtype of one of them.

These questions serve the rule ``kernel-argument-dtype``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from codemods.support.kernel_argument_call import Bound, Fault, class_values, groups, root, wants
from dtypefix.analysis.module import Module
from dtypefix.analysis.origins import Kind
from dtypefix.analysis.walking import walk

CLAIM = "supported_kv_cache_dtypes"


def mixed_with_cache(bound: Bound) -> Iterator[Fault]:
    """Query and cache in one call, one as it is stored and the other as it was computed."""
    if not bound.contract.attention or _handled(bound):
        return
    for group in groups(bound):
        if any(bound.is_tested(n) for n in group):
            continue
        cached = [n for n in group if bound.cached(n)]
        if cached:
            other = next((n for n in group if bound.plain(n) or _left_out(bound, n)), None)
            if other is not None:
                yield Fault(
                    bound.given[cached[0]],
                    "warning",
                    f"{wants(bound, other, cached[0])}: the KV cache can be stored in another dtype than "
                    f"that of `{ast.unparse(bound.given[other])}`",
                    (bound.value(other), bound.value(cached[0])),
                )
            continue
        converted = [n for n in group if any(o.kind is Kind.KV_CACHE for o in bound.real(n))]
        for name in group:
            if converted and bound.plain(name):
                yield Fault(
                    bound.given[name],
                    "warning",
                    f"{wants(bound, converted[0], name)}: only the former is converted to the cache's",
                    (bound.value(converted[0]), bound.value(name)),
                    f"{ast.unparse(root(bound.given[converted[0]]))}.dtype",
                )


def _handled(bound: Bound) -> bool:
    """Whether an 8-bit cache is refused here, or the query's own scale is given, so that it was quantised."""
    if any(name in bound.given for name in bound.roles["query_scales"]):
        return True
    functions: list[ast.AST] = [bound.flow.node]
    cls = bound.flow.module.enclosing_class(bound.call)
    if cls is not None:
        functions += [n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    for function in functions:
        for node in walk(function):
            if isinstance(node, ast.If) and "kv_cache_dtype" in ast.unparse(node.test):
                if any(isinstance(s, ast.Raise) for s in node.body):
                    return True
    return _quantises_query(bound) or _unclaimed(bound)


def _quantises_query(bound: Bound) -> bool:
    """Whether the class asks for a query that is quantised for the cache already."""
    module, project = bound.flow.module, bound.flow.flows.project
    cls = module.enclosing_class(bound.call)
    if cls is None or project is None:
        return False
    ref = project.class_of(module, cls)
    for name in bound.roles["quantised_query"]:
        set_to = ref.defines(name)
        if set_to is not None and getattr(set_to.value, "value", True) is not False:
            return True
    return False


def _unclaimed(bound: Bound) -> bool:
    """Whether the backends in the files of the class say which formats they take, and none has 8 bits."""
    for module in _files(bound):
        formats = [
            c.value
            for value in class_values(module, CLAIM)
            for c in walk(value)
            if isinstance(c, ast.Constant)
        ]
        if formats:
            return not any(str(f).startswith(("fp8", "int8", "nvfp4")) for f in formats)
    return False


def _files(bound: Bound) -> Iterator[Module]:
    """The file of a call, then those of the bases of its class."""
    module, project = bound.flow.module, bound.flow.flows.project
    yield module
    cls = module.enclosing_class(bound.call)
    if cls is not None and project is not None:
        for base in project.class_of(module, cls).mro:
            if base.module is not module:
                yield base.module


def _left_out(bound: Bound, name: str) -> bool:
    """Whether one alternative is converted to the cache's dtype and another, a parameter, nowhere is."""
    real = bound.real(name)
    if not any(o.kind is Kind.KV_CACHE for o in real):
        return False
    for origin in real:
        if origin.kind is Kind.PARAMETER and not bound.is_cache(origin):
            if not _converts(bound.flow.node, origin.detail):
                return True
    return False


def _converts(function: ast.AST, name: str) -> bool:
    """Whether a function casts the variable of a name."""
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in ("to", "type", "view")
        and isinstance(n.func.value, ast.Name)
        and n.func.value.id == name
        and any("dtype" in ast.unparse(a) for a in (*n.args, *(k.value for k in n.keywords)))
        for n in walk(function)
    )


def matched_elsewhere(bound: Bound, partner: str) -> bool:
    """Whether the function casts what it reads from the cache to the dtype of an argument's partner."""
    wanted = {f"{o.detail}.dtype" for o in bound.real(partner) if o.kind is Kind.PARAMETER}
    for node in walk(bound.flow.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            reads = ast.unparse(node.func.value)
            if any(ast.unparse(a) in wanted for a in node.args):
                if any(call in reads for call in bound.roles["cache_calls"]):
                    return True
    return False
