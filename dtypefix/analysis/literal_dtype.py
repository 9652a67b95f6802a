"""Where a half-precision dtype is written out, and what it decides there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.reaching import parameter_names
from dtypefix.analysis.walking import walk

_HALVES = frozenset({"torch.bfloat16", "torch.float16", "torch.half", "tl.bfloat16", "tl.float16"})
_SHORT = frozenset({"half", "bfloat16"})
_FACTORIES = frozenset(
    {
        *("empty", "zeros", "ones", "full", "tensor", "rand", "randn", "arange", "eye"),
        *(
            "empty_like",
            "zeros_like",
            "ones_like",
            "full_like",
            "new_empty",
            "new_zeros",
            "new_ones",
            "new_full",
        ),
    }
)
_HOLDERS = ("Parameter", "register_buffer", "register_parameter")
_DTYPE_NAME = re.compile(r"(^|_)dtype$")
_ONE_SUPPORTED = re.compile(rb"def get_supported_act_dtypes[^\n]*\n\s+return \[([^\],]*)\]")
_ASKS = re.compile(r"dtype|fp8|bf16|fp16|float8|quant|itemsize")


class Role(StrEnum):
    """What a literal decides, in words that follow "is written out"."""

    CAST = "in a cast"
    ALLOCATION = "in an allocation"
    PARAMETER = "for a parameter"
    ARGUMENT = "for a layer"
    ATTRIBUTE = "as a class's own dtype"
    VARIABLE = "for what follows"
    DEFAULT = "as a default"
    DOT = "in an operand of tl.dot"


@dataclass(frozen=True, slots=True)
class HalfLiteral:
    """A literal ``float16`` or ``bfloat16``: ``at`` is the literal or the ``.half()`` call.

    ``call`` is the call it is given to, and ``name`` the argument, attribute or parameter it becomes.
    """

    role: Role
    at: ast.expr
    call: ast.Call | None
    name: str
    function: FunctionNode

    @property
    def text(self) -> str:
        """The literal as written, for messages."""
        if isinstance(self.at, ast.Call) and isinstance(self.at.func, ast.Attribute):
            return f".{self.at.func.attr}()"
        return ast.unparse(self.at)


def half_nodes(module: Module) -> Iterator[ast.expr]:
    """Every spelled-out half-precision dtype and every ``.half()`` or ``.bfloat16()`` call of a file.

    Those that are only looked at (compared, listed, shown) are left out.
    """
    imported = b"from torch import" in module.source
    for node in module.nodes():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if f"{node.value.id}.{node.attr}" in _HALVES and not _is_looked_at(module, node):
                yield node
        elif isinstance(node, ast.Name) and f"torch.{node.id}" in _HALVES and imported:
            if isinstance(node.ctx, ast.Load) and not _is_looked_at(module, node):
                yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            if node.func.attr in _SHORT and not node.keywords:
                yield node


def _is_looked_at(module: Module, node: ast.AST) -> bool:
    """Whether a literal stands in a comparison, a list of supported dtypes or the like."""
    parent = module.parents.get(node)
    return isinstance(parent, ast.Compare | ast.Tuple | ast.List | ast.Set | ast.Dict | ast.FormattedValue)


def half_literal(module: Module, node: ast.expr) -> HalfLiteral | None:
    """What a literal decides; None when it is looked at, stands in a branch, or decides nothing known."""
    function = module.enclosing_function(node)
    if isinstance(node, ast.Call):
        role = Role.PARAMETER if _is_held(module, node) else Role.CAST
        return HalfLiteral(role, node, node, "", function) if function is not None else None
    parent = module.parents.get(node)
    if isinstance(parent, ast.arguments):
        named = _default_of(parent, node)
        owner = module.parents.get(parent)
        if named is not None and _DTYPE_NAME.search(named) and isinstance(owner, FunctionNode):
            return HalfLiteral(Role.DEFAULT, node, None, named, owner)
        return None
    if isinstance(parent, ast.Assign) and function is not None:
        target = parent.targets[0]
        simple = target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)
        if not _DTYPE_NAME.search(simple):
            return None
        role = Role.ATTRIBUTE if isinstance(target, ast.Attribute) else Role.VARIABLE
        return HalfLiteral(role, node, None, simple, function)
    call = module.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or function is None:
        return None
    name = parent.arg or "" if isinstance(parent, ast.keyword) else ""
    return _in_call(module, node, call, name, function)


def _in_call(
    module: Module, node: ast.expr, call: ast.Call, name: str, function: FunctionNode
) -> HalfLiteral | None:
    callee = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    if callee in ("to", "type") and name in ("", "dtype") and isinstance(call.func, ast.Attribute):
        dot = module.parents.get(call)
        if isinstance(dot, ast.Call) and ast.unparse(dot.func) == "tl.dot":
            # One finding for each product, at its first operand.
            first = next(iter(_casts_of(dot)), None)
            return HalfLiteral(Role.DOT, node, call, name, function) if first is call else None
        role = Role.PARAMETER if _is_held(module, call) else Role.CAST
        return HalfLiteral(role, node, call, name, function)
    if name not in ("dtype", "params_dtype"):
        return None
    if callee in _FACTORIES:
        role = Role.PARAMETER if _is_held(module, call) else Role.ALLOCATION
        return HalfLiteral(role, node, call, name, function)
    return HalfLiteral(Role.ARGUMENT, node, call, name, function)


def _is_held(module: Module, made: ast.Call) -> bool:
    """Whether a new tensor becomes a parameter or a buffer."""
    around = module.parents.get(made)
    around = module.parents.get(around) if isinstance(around, ast.keyword) else around
    return isinstance(around, ast.Call) and ast.unparse(around.func).endswith(_HOLDERS)


def asks_first(module: Module, node: ast.AST) -> bool:
    """Whether a branch around a node, or an early return before it, has asked about dtypes or formats."""
    below: ast.AST = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.If | ast.IfExp | ast.While) and below is not parent.test:
            if _ASKS.search(ast.unparse(parent.test)):
                return True
        elif isinstance(parent, FunctionNode):
            return any(_refuses(stmt) for stmt in parent.body if stmt.lineno < node.lineno)  # type: ignore[attr-defined]
        below = parent
    return False


def _refuses(stmt: ast.stmt) -> bool:
    test = stmt.test if isinstance(stmt, ast.Assert | ast.If) else None
    if isinstance(stmt, ast.If) and not isinstance(stmt.body[-1], ast.Raise | ast.Return):
        return False
    return test is not None and "dtype" in ast.unparse(test)


def _casts_of(dot: ast.Call) -> list[ast.Call]:
    """The operands of a product that are cast to a literal half."""
    return [
        operand
        for operand in dot.args
        if isinstance(operand, ast.Call)
        and operand.args
        and isinstance(operand.func, ast.Attribute)
        and operand.func.attr == "to"
        and ast.unparse(operand.args[0]) in _HALVES
    ]


def _default_of(arguments: ast.arguments, default: ast.expr) -> str | None:
    positional = [*arguments.posonlyargs, *arguments.args]
    for argument, value in zip(reversed(positional), reversed(arguments.defaults), strict=False):
        if value is default:
            return argument.arg
    for argument, keyword in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if keyword is default:
            return argument.arg
    return None


def ignores_parameter(module: Module, literal: HalfLiteral) -> str | None:
    """Whether a method is handed ``params_dtype``, never reads it, and allocates in a literal instead."""
    function = literal.function
    if literal.role is Role.DEFAULT and literal.name == "params_dtype":
        return "callers that leave it out get it"
    allocates = literal.role in (Role.ALLOCATION, Role.PARAMETER, Role.VARIABLE)
    if not allocates or "params_dtype" not in parameter_names(function):
        return None
    if any(isinstance(n, ast.Name) and n.id == "params_dtype" for n in walk(function)):
        return None
    # A format that supports one activation dtype only may well write it out.
    supported = _ONE_SUPPORTED.search(module.source)
    return None if supported else "the method is handed params_dtype and does not read it"
