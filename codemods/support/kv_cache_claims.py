"""What a backend claims about cache formats, and cache dtypes that default to the process's.

They serve the rule ``kv-cache-dtype-source``.
"""

from __future__ import annotations

import ast

from codemods.support.kv_cache_checks import Fault, Place
from dtypefix.analysis.classes import ClassRef
from dtypefix.analysis.kv_cache import KvCacheNames
from dtypefix.analysis.module import FunctionNode
from dtypefix.analysis.walking import walk
from dtypefix.findings import Evidence


def claims_too_much(names: KvCacheNames, function: FunctionNode, at: Place) -> Fault | None:
    """A backend that claims every quantised cache, while its own conversion refuses some formats."""
    if at.cls is None or function.name != names.table["claim"]:
        return None
    claim = next(
        (
            n
            for n in walk(function)
            if isinstance(n, ast.Call) and ast.unparse(n.func).endswith(tuple(names.table["quantised_tests"]))
        ),
        None,
    )
    if claim is None or not claim.args:
        return None
    for method in at.cls.own_methods.values():
        refusal = _refusal(method) if method is not function else None
        if refusal is not None:
            return Fault(
                f"every quantised cache is claimed, but `{method.name}` refuses all but "
                f"{ast.unparse(refusal.comparators[0])}",
                (
                    at.see(claim, "true for every quantised format"),
                    at.see(refusal, f"`{method.name}` knows only these and raises for others"),
                ),
                "whether the kernels read the other formats is for the backend to say",
            )
    return None


def _refusal(method: FunctionNode) -> ast.Compare | None:
    """The test of a cache dtype against listed formats behind which a method raises for all others."""
    for node in walk(method):
        if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
            continue
        test = node.test
        if "cache_dtype" not in ast.unparse(test.left) or not isinstance(test.ops[0], ast.In | ast.Eq):
            continue
        formats = [n.value for n in walk(test.comparators[0]) if isinstance(n, ast.Constant)]
        if not any(isinstance(f, str) and f.startswith("fp8") for f in formats):
            continue
        rest = (
            node.orelse or method.body[method.body.index(node) + 1 :] if node in method.body else node.orelse
        )
        if len(rest) == 1 and isinstance(rest[0], ast.Raise):
            return test
    return None


def process_wide_default(call: ast.Call, cls: ClassRef, at: Place) -> Fault | None:
    """A cache description built without its dtype, which then comes from the process's environment."""
    if any(k.arg in ("dtype", None) for k in call.keywords):
        return None
    for owner in cls.mro:
        for position, field in enumerate(n for n in owner.node.body if isinstance(n, ast.AnnAssign)):
            if not isinstance(field.target, ast.Name) or field.target.id != "dtype":
                continue
            source = _environment(owner, field)
            if source is None or position < len(call.args):
                return None
            return Fault(
                "the cache's dtype is left to the process's environment, so the model's own "
                "configuration has no say",
                (
                    Evidence(owner.module.path, field.lineno, f"`{cls.node.name}.dtype` has a default"),
                    source,
                    at.see(call, "and is not given here"),
                ),
                "pass the dtype that the model's configuration asks for",
            )
    return None


def _environment(owner: ClassRef, field: ast.AnnAssign) -> Evidence | None:
    """Where the default of a field reads the environment, if it does."""
    value = field.value
    if isinstance(value, ast.Call):
        factory = next((k.value for k in value.keywords if k.arg == "default_factory"), None)
        found = owner.project.resolve(owner.module, factory) if factory is not None else None
        if found is not None and isinstance(found.node, FunctionNode) and not found.node.args.args:
            for node in walk(found.node):
                if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"):
                    return Evidence(found.module.path, node.lineno, "which is read from the environment")
    return None


def planned_alike(names: KvCacheNames, assigned: ast.Assign, at: Place) -> Fault | None:
    """The cache's dtype kept in an attribute that one planning call takes for query and cache alike."""
    target = assigned.targets[0]
    if at.cls is None or not isinstance(target, ast.Attribute):
        return None
    text = ast.unparse(target)
    for node in ast.walk(at.cls.node):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in names.table["planning"]:
            continue
        given = [ast.unparse(a) for a in (*node.args, *(k.value for k in node.keywords))]
        if given.count(text) > 1:
            return Fault(
                f"`{text}` is the dtype of the KV cache, and is planned for the query as well",
                (
                    at.see(assigned, f"`{text}` is set here"),
                    at.see(node, "and given for the query and for the cache"),
                ),
                "a query that is not cast to the cache's dtype has that of the model",
            )
    return None
