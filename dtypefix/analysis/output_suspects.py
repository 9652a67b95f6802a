"""Which functions may give back a wrong dtype, by their syntax alone."""

from __future__ import annotations

import ast

from dtypefix.analysis.fakes import registrations
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.outputs import ignored_dtype, is_native, is_norm, squares
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.stand_ins import ALLOCATIONS, emptied_weight, placeholders


def suspects(module: Module, registering: frozenset[str]) -> list[tuple[FunctionNode, frozenset[str]]]:
    """The functions of a file that may give back a wrong dtype, from syntax alone, and why.

    Reasons: ``fake``, ``empty`` (placeholders), ``upcast`` (undone on one way out only), ``rebound``
    (the dtype of a name is read after it was bound anew), ``native`` and ``query``.
    """
    found: dict[FunctionNode, set[str]] = {}

    def add(node: ast.AST, reason: str) -> None:
        function = node if isinstance(node, FunctionNode) else module.enclosing_function(node)
        if function is not None:
            found.setdefault(function, set()).add(reason)

    if any(name.encode() in module.source for name in (*registering, ".register_fake")):
        for _, fake in registrations(module, registering):
            add(fake, "fake")
    if b"empty" in module.source or b"zeros" in module.source:
        for placed in module.nodes(ast.Assign, ast.Call):
            if isinstance(placed, ast.Assign | ast.Call) and emptied_weight(placed):
                add(placed, "empty")
        for branch in module.nodes(ast.If, ast.IfExp):
            if isinstance(branch, ast.If | ast.IfExp) and any(True for _ in placeholders(branch)):
                add(branch, "empty")
    for call in module.nodes(ast.Call):
        name = last_name(call.func)
        if (name == "float" and not call.args) or (
            name == "to" and _last(call).endswith(("float32", "torch.float"))
        ):
            add(call, "float")
        elif name == "mean" and any(squares(n) for n in (*call.args[:1], getattr(call.func, "value", call))):
            function = module.enclosing_function(call)
            if function is not None and is_native(function) and is_norm(module.parents.get(function)):
                add(call, "native")
        elif name.endswith("_with_kv_cache"):
            add(call, "query")
    for function in [f for f, reasons in found.items() if "float" in reasons]:
        if _undone_somewhere(function):
            add(function, "upcast")
    statements: list[ast.Return | ast.Assign] = [*module.nodes(ast.Return), *module.nodes(ast.Assign)]
    for statement in statements:
        read = _late_read(statement)
        around = module.enclosing_function(statement) if read is not None else None
        if around is not None and read in _rebound(around):
            add(around, "rebound")
    return [(f, frozenset(reasons)) for f, reasons in found.items() if reasons != {"float"}]


def _last(call: ast.Call) -> str:
    given = [*call.args, *(k.value for k in call.keywords)]
    return ast.unparse(given[-1]) if given and isinstance(given[-1], ast.Attribute) else ""


def _undone_somewhere(function: FunctionNode) -> bool:
    """Whether a function with an upcast casts back as well, on one of several ways out."""
    nodes = list(ast.walk(function))
    returns = [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]
    if not returns:
        return False
    if ignored_dtype(function) is not None:
        return True
    pairs = [e.id for r in returns if isinstance(r, ast.Tuple) for e in r.elts if isinstance(e, ast.Name)]
    if pairs and any(name in _rebound(function) for name in pairs):
        return True
    restores = (
        n for n in nodes if isinstance(n, ast.Call) and last_name(n.func) in ("to", "type", "type_as")
    )
    return len(returns) > 1 and any("dtype" in ast.unparse(n) for n in restores)


def _rebound(function: FunctionNode) -> set[str]:
    """Parameters that a function binds anew from a call."""
    names = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in node.targets:
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                found |= {e.id for e in parts if isinstance(e, ast.Name) and e.id in names}
    return found


def _late_read(statement: ast.Return | ast.Assign) -> str | None:
    """``x`` of ``return y.to(x.dtype)``, ``out = empty(…, dtype=x.dtype)`` or ``out = empty_like(x)``."""
    value = statement.value
    if isinstance(statement, ast.Assign):
        if not isinstance(value, ast.Call) or last_name(value.func) not in ALLOCATIONS:
            return None
        if isinstance(value.func, ast.Attribute) and isinstance(value.func.value, ast.Name):
            if value.func.attr.startswith("new_"):
                return value.func.value.id
        if last_name(value.func).endswith("_like") and value.args and isinstance(value.args[0], ast.Name):
            return value.args[0].id
    if value is None or not isinstance(value, ast.Call | ast.Tuple):
        return None
    for node in ast.walk(value):
        if isinstance(node, ast.Attribute) and node.attr == "dtype" and isinstance(node.value, ast.Name):
            return node.value.id
    return None
