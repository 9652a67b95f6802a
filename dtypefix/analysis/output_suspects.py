"""Which functions may give back a wrong dtype, by their syntax alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtypefix.analysis.fakes import registrations
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.outputs import ALLOCATIONS, emptied_weights, ignored_dtype, placeholders
from dtypefix.analysis.scopes import last_name


def suspects(
    module: Module, registering: frozenset[str], native: frozenset[str]
) -> list[tuple[FunctionNode, frozenset[str]]]:
    """The functions of a file that may give back a wrong dtype, from syntax alone, and why.

    Reasons: ``fake``, ``empty`` (placeholders), ``upcast`` (undone on one way out only), ``rebound``
    (the dtype of a name is read after it was bound anew), ``native`` and ``query``.
    """
    found: dict[FunctionNode, set[str]] = {}

    def add(node: ast.AST, reason: str) -> None:
        function = node if isinstance(node, FunctionNode) else module.enclosing_function(node)
        if function is not None:
            found.setdefault(function, set()).add(reason)

    if any(name.encode() in module.source for name in registering):
        for _, fake in registrations(module, registering):
            add(fake, "fake")
    if b"(0" in module.source:
        for node in module.nodes():
            if (isinstance(node, ast.Assign) and any(True for _ in emptied_weights(_only(node)))) or (
                isinstance(node, ast.If) and node.orelse and any(True for _ in placeholders(_only(node)))
            ):
                add(node, "empty")
    facts = _facts(module)
    for function, fact in facts.items():
        upcast = "upcast" in fact
        several = fact.get("returns", 0) > 1 and "restore" in fact
        if upcast and (several or "pair" in fact or ignored_dtype(function) is not None):
            add(function, "upcast")
        if "read" in fact:
            add(function, "rebound")
        if "query" in fact:
            add(function, "query")
        if function.name in native and "square" in fact:
            add(function, "native")
    return [(function, frozenset(reasons)) for function, reasons in found.items()]


def _only(node: ast.stmt) -> ast.Module:
    """A statement by itself: of an ``if``, without the conditionals inside it."""
    return ast.Module([node], [])


def _facts(module: Module) -> dict[FunctionNode, dict[str, int]]:
    """What occurs in each function, nested ones left out, in one pass over the file."""
    facts: dict[FunctionNode, dict[str, int]] = {}

    def walk(node: ast.AST, function: FunctionNode | None, rebound: set[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FunctionNode):
                facts[child] = {}
                walk(child, child, _rebound(child))
                continue
            if function is not None:
                for word in _words(child, rebound):
                    facts[function][word] = facts[function].get(word, 0) + 1
            walk(child, function, rebound)

    walk(module.tree, None, set())
    return facts


def _rebound(function: FunctionNode) -> set[str]:
    """Parameters that a function binds anew from a call on themselves."""
    names = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in node.targets:
                elements = target.elts if isinstance(target, ast.Tuple) else [target]
                found |= {e.id for e in elements if isinstance(e, ast.Name) and e.id in names}
    return found


def _words(node: ast.AST, rebound: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Return):
        if node.value is not None:
            yield "returns"
        if isinstance(node.value, ast.Tuple):
            if any(isinstance(e, ast.Name) and e.id in rebound for e in node.value.elts):
                yield "pair"
            if any(_reads(e, rebound) for e in node.value.elts):
                yield "read"
        elif node.value is not None and _reads(node.value, rebound):
            yield "read"
    elif isinstance(node, ast.Assign):
        call = node.value
        if isinstance(call, ast.Call) and last_name(call.func).removesuffix("_like") in ALLOCATIONS:
            if any(isinstance(n, ast.Name) and n.id in rebound for n in ast.walk(call)):
                yield "read"
    elif isinstance(node, ast.Call):
        name = last_name(node.func)
        if name == "float" and not node.args:
            yield "upcast"
        elif name == "to":
            last = (
                ast.unparse(node.args[-1] if node.args else node.keywords[-1].value)
                if node.args or node.keywords
                else ""
            )
            yield (
                "upcast"
                if last.endswith(("float32", "torch.float"))
                else "restore"
                if last.endswith("dtype")
                else "to"
            )
        elif name in ("pow", "square"):
            yield "square"
        elif any(k.arg == "query" for k in node.keywords):
            yield "query"


def _reads(expr: ast.expr, rebound: set[str]) -> bool:
    """``y.to(x.dtype)`` with ``x`` bound anew."""
    for node in ast.walk(expr):
        if isinstance(node, ast.Attribute) and node.attr == "dtype" and isinstance(node.value, ast.Name):
            if node.value.id in rebound:
                return True
    return False
