"""Conditions that decide whether a kernel or a backend is used, and what they look at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.walking import walk

_SELECTOR = re.compile(r"backend|select_\w*(kernel|impl)")
_ELIGIBLE = re.compile(r"^(should|can)_(use|run|custom|quick|fuse)|^should_\w+|_supported$|^can_\w+")
_GATE = re.compile(r"^(allow|can_use|enable)_\w+")
_FUSED = re.compile(r"^_?(use|enable|can_use|allow)_\w*fus")
_DEVICE = re.compile(r"is_cuda\(\)|device_capability")
# Calls that get a tensor and say nothing of its dtype.
_BLIND = frozenset({"len", "isinstance", "is_weak_contiguous", "id", "cast"})


def _parameters(function: FunctionNode) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _compares_dtype(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Compare) and "dtype" in ast.unparse(n) for n in walk(node))


def is_false(value: ast.expr | None) -> bool:
    """Whether an expression is the constant ``False``."""
    return isinstance(value, ast.Constant) and value.value is False


def selects(function: FunctionNode) -> bool:
    """Whether a function chooses a backend and is told a dtype."""
    return bool(_SELECTOR.search(function.name)) and any(a.arg == "dtype" for a in _parameters(function))


def tests_tensor(function: FunctionNode) -> str | None:
    """The tensor parameter whose layout and shape a function tests before it says no; None otherwise."""
    if not _ELIGIBLE.search(function.name):
        return None
    refusals = [
        node.test
        for node in walk(function)
        if isinstance(node, ast.If)
        and any(isinstance(s, ast.Return) and is_false(s.value) for s in node.body)
    ]
    for argument in _parameters(function):
        if argument.annotation is None or not ast.unparse(argument.annotation).endswith("Tensor"):
            continue
        tested: set[str] = set()
        for part in (p for test in refusals for p in walk(test)):
            if isinstance(part, ast.Attribute) and ast.unparse(part.value) == argument.arg:
                tested.add(part.attr)
            elif isinstance(part, ast.Call) and argument.arg in map(ast.unparse, part.args):
                tested.add(last_name(part.func))
        if any("contiguous" in name or "stride" in name for name in tested) and len(tested) > 1:
            return argument.arg
    return None


def looks_at_dtype(module: Module, function: FunctionNode, tensor: str) -> bool:
    """Whether a function decides by a dtype too, or hands the tensor to a function that may."""
    for node in walk(function):
        test = node.test if isinstance(node, ast.If | ast.IfExp | ast.Assert) else None
        if isinstance(node, ast.Return):
            test = node.value
        if test is not None and (_compares_dtype(test) or _asks(module, test)):
            return True
        if isinstance(node, ast.Call) and last_name(node.func) not in _BLIND:
            arguments = [*node.args, *(k.value for k in node.keywords)]
            if any(isinstance(a, ast.Name) and a.id == tensor for a in arguments):
                return True
    return False


def _asks(module: Module, test: ast.expr) -> bool:
    """Whether a condition hands a dtype to a function, other than a method here that never compares it."""
    owner = module.enclosing_class(test)
    methods = {m.name: m for m in owner.body if isinstance(m, FunctionNode)} if owner else {}
    for node in walk(test):
        if isinstance(node, ast.Call) and "dtype" in ast.unparse(node):
            method = methods.get(last_name(node.func))
            if method is None or _compares_dtype(method):
                return True
    return False


def read_on_the_way(module: Module, node: ast.stmt, function: FunctionNode) -> bool:
    """Whether a test around a statement, or a statement before it, reads a dtype."""
    below: ast.AST = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.If) and "dtype" in ast.unparse(parent.test):
            return True
        for block in ("body", "orelse"):
            statements = getattr(parent, block, None)
            if isinstance(statements, list) and below in statements:
                earlier = statements[: statements.index(below)]
                if any("dtype" in ast.unparse(statement) for statement in earlier):
                    return True
        if parent is function:
            return False
        below = parent
    return False


def admits_fused(statement: ast.Assign) -> bool:
    """Whether a statement sets ``self.use_fused_…`` by the device, and by no dtype."""
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Attribute) or not _FUSED.search(target.attr):
        return False
    if not isinstance(value, ast.BoolOp) or not isinstance(value.op, ast.And) or len(value.values) < 3:
        return False
    text = ast.unparse(value)
    return bool(_DEVICE.search(text)) and not re.search(r"dtype|isinstance|quant_method", text)


def by_head_size(node: ast.AST) -> ast.expr | None:
    """The test of a branch that picks a kernel by device and by listed head sizes, and by no dtype."""
    if not isinstance(node, ast.If):
        return None
    text = ast.unparse(node.test)
    listed = re.search(r"head_(size|dim) (not )?in [\[\(\{]", text) and re.search(
        r"is_cuda|has_flashinfer", text
    )
    return node.test if listed and "dtype" not in text else None


def gates(function: FunctionNode) -> Iterator[ast.Assign]:
    """Assignments of a condition to ``self.allow_…`` and the like, in the function's own body."""
    for statement in function.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Attribute) and _GATE.search(target.attr):
                yield statement


def unlike(function: FunctionNode) -> Iterator[tuple[ast.Assign, ast.Assign]]:
    """Gates of a function that never look at a dtype, each with one beside it that does."""
    found = list(gates(function))
    looking = [g for g in found if "dtype" in ast.unparse(g.value)]
    derived = {last_name(g.targets[0]) for g in looking}
    for gate in found if looking else ():
        text = ast.unparse(gate.value)
        if "dtype" not in text and isinstance(gate.value, ast.BoolOp) and not any(n in text for n in derived):
            yield gate, looking[0]


def checked(call: ast.Call) -> str:
    """What a registration passes as its extra check, ``""`` for nothing."""
    return next((ast.unparse(k.value) for k in call.keywords if k.arg == "extra_check"), "")
