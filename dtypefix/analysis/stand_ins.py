"""Empty tensors that stand in for something else: for a layer's output, or for a weight that was packed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dtypefix.analysis.module import FunctionNode
from dtypefix.analysis.scopes import last_name

ALLOCATIONS = frozenset(
    {
        "empty",
        "zeros",
        "ones",
        "full",
        "empty_like",
        "zeros_like",
        "new_empty",
        "new_zeros",
        "new_ones",
        "new_full",
    }
)
_OWN = ("new_empty", "new_zeros", "new_ones", "new_full")
_WEIGHT = re.compile(r"(^|_)weight$")
# Functions that put a parameter into a module under a name: object, name, parameter.
_SETTERS = {"setattr": 1, "replace_parameter": 1, "register_parameter": 0}


@dataclass(frozen=True, slots=True)
class Placeholder:
    """``name`` is the result of ``made`` on one arm and the empty tensor ``empty`` on the other.

    ``dtype`` has the dtype of the empty tensor: ``x.dtype``, or ``x`` for ``x.new_empty(…)``.
    """

    name: str
    made: ast.Call
    empty: ast.Call
    dtype: ast.expr

    @property
    def joined(self) -> bool:
        """Whether torch makes the other arm of what layers returned earlier: ``torch.cat(outputs)``."""
        return ast.unparse(self.made.func).startswith("torch.")


def stand_ins(function: FunctionNode) -> Iterator[Placeholder]:
    """The empty stand-ins anywhere in a function; see :func:`placeholders`."""
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp):
            yield from placeholders(node)


def placeholders(node: ast.If | ast.IfExp) -> Iterator[Placeholder]:
    """``if …: name = layer(x)`` with ``else: name = torch.empty((0, …), dtype=x.dtype)``, or the reverse."""
    if isinstance(node, ast.IfExp):
        arms = [{"result": node.body}, {"result": node.orelse}]
    elif node.orelse:
        arms = [{t: v for s in arm for t, v in _bound(s)} for arm in (node.body, node.orelse)]
    else:
        return
    for one, other in (arms, reversed(arms)):
        for name, value in one.items():
            made, dtype = other.get(name), _empty_rows(value)
            if dtype is not None and isinstance(made, ast.Call) and isinstance(value, ast.Call):
                if _empty_rows(made) is None and last_name(made.func) not in ALLOCATIONS:
                    yield Placeholder(name, made, value, dtype)


def _bound(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        yield statement.targets[0].id, statement.value


def _empty_rows(expr: ast.expr) -> ast.expr | None:
    """What decides the dtype of an allocation without rows: ``x.dtype``, or ``x`` for ``x.new_empty(0)``."""
    if not isinstance(expr, ast.Call) or last_name(expr.func) not in ALLOCATIONS:
        return None
    given = expr.args[0] if expr.args else next((k.value for k in expr.keywords if k.arg == "size"), None)
    shape = given.elts if isinstance(given, ast.Tuple | ast.List) else expr.args
    if not shape or not isinstance(shape[0], ast.Constant) or shape[0].value != 0:
        return None
    dtype = next((k.value for k in expr.keywords if k.arg == "dtype"), None)
    if dtype is None and isinstance(expr.func, ast.Attribute) and expr.func.attr in _OWN:
        return expr.func.value
    return dtype if isinstance(dtype, ast.Attribute) and dtype.attr == "dtype" else None


def emptied_weight(node: ast.Assign | ast.Call) -> str | None:
    """The weight, as written, that a statement or call replaces by an empty tensor without a dtype.

    ``layer.weight = Parameter(torch.empty(0))``, ``layer.weight.data = torch.empty(0)`` and
    ``replace_parameter(layer, "weight", torch.empty(0))`` alike.
    """
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and target.attr == "data":
            target = target.value
        named = isinstance(target, ast.Attribute) and _WEIGHT.search(target.attr)
        return ast.unparse(target) if named and _is_empty(node.value) else None
    place = _SETTERS.get(last_name(node.func))
    if place is None or len(node.args) != place + 2 or not _is_empty(node.args[-1]):
        return None
    name = node.args[place]
    if (
        not isinstance(name, ast.Constant)
        or not isinstance(name.value, str)
        or not _WEIGHT.search(name.value)
    ):
        return None
    owner = node.args[0] if place else getattr(node.func, "value", None)
    return f"{ast.unparse(owner)}.{name.value}" if owner is not None else None


def _is_empty(expr: ast.expr) -> bool:
    """Whether an expression is an empty tensor of the default dtype, as a parameter or plain."""
    if not isinstance(expr, ast.Call):
        return False
    if last_name(expr.func) in ("Parameter", "BasevLLMParameter"):
        inner = expr.args[0] if expr.args else next((k.value for k in expr.keywords if k.arg == "data"), None)
        return inner is not None and _is_empty(inner)
    if not ast.unparse(expr.func).startswith("torch.") or any(k.arg == "dtype" for k in expr.keywords):
        return False
    sizes = [*expr.args, *(k.value for k in expr.keywords if k.arg == "size")]
    if last_name(expr.func) not in ("empty", "zeros", "ones", "tensor") or len(sizes) != 1:
        return False
    size = sizes[0]
    if last_name(expr.func) == "tensor":
        return isinstance(size, ast.List | ast.Tuple) and not size.elts
    parts = size.elts if isinstance(size, ast.Tuple | ast.List) else [size]
    return len(parts) == 1 and isinstance(parts[0], ast.Constant) and parts[0].value == 0
