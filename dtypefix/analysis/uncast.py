"""Where a parameter's own dtype still decides: the calls it reaches without a cast on the way."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from dtypefix.analysis.module import FunctionNode

CallKind = Literal["linear", "norm", "same", "cast", "other"]
"""What a call makes of its input: a projection; a norm or the like, which needs the dtype and keeps
it; any call that keeps it; one that fixes a dtype; or one that is no concern of the dtype."""

_CASTS = frozenset({"type", "type_as", "float", "half", "bfloat16", "double", "int", "long", "bool"})
_METADATA = frozenset({"size", "dim", "numel", "item", "tolist", "stride", "is_contiguous", "data_ptr"})
_SAME_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "real"})


@dataclass(frozen=True, slots=True)
class UncastUse:
    """A call that receives the parameter, or something derived from it, in the parameter's dtype."""

    call: ast.Call
    argument: ast.expr
    kind: CallKind


def uncast_uses(
    function: FunctionNode, parameter: str, kind_of: Callable[[ast.Call], CallKind | None]
) -> list[UncastUse]:
    """The calls that ``parameter`` reaches uncast on some path, in source order.

    Args:
        function: the function whose body is walked.
        parameter: a parameter name.
        kind_of: says what a call of something other than a tensor method or a ``torch`` function
            makes of its input; None for a call that is to be treated as keeping the dtype and not
            to be listed.
    """
    walker = _Walker(kind_of)
    walker.block(function.body, {parameter})
    return sorted(walker.uses.values(), key=lambda use: (use.call.lineno, use.call.col_offset))


class _Walker:
    def __init__(self, kind_of: Callable[[ast.Call], CallKind | None]) -> None:
        self.kind_of = kind_of
        self.uses: dict[ast.Call, UncastUse] = {}

    def block(self, body: list[ast.stmt], live: set[str]) -> bool:
        """Walk statements, updating ``live``; says whether control leaves the block at its end."""
        return all(self.statement(stmt, live) for stmt in body)

    def statement(self, stmt: ast.stmt, live: set[str]) -> bool:
        """Walk one statement; False when control does not pass it."""
        if isinstance(stmt, ast.Assign | ast.AnnAssign):
            value = stmt.value
            carried = value is not None and self.carries(value, live)
            for target in stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]:
                self.bind(target, carried, live)
        elif isinstance(stmt, ast.AugAssign):
            if self.carries(stmt.value, live) and isinstance(stmt.target, ast.Name):
                live.add(stmt.target.id)
        elif isinstance(stmt, ast.If):
            return self.branch(stmt, live)
        elif isinstance(stmt, ast.For | ast.AsyncFor):
            self.bind(stmt.target, self.carries(stmt.iter, live), live)
            # Twice, so that what the end of the body makes live is seen at its start.
            for _ in range(2):
                inner = set(live)
                self.block(stmt.body, inner)
                live |= inner
            self.block(stmt.orelse, live)
        elif isinstance(stmt, ast.While):
            self.carries(stmt.test, live)
            for _ in range(2):
                inner = set(live)
                self.block(stmt.body, inner)
                live |= inner
        elif isinstance(stmt, ast.With | ast.AsyncWith):
            for item in stmt.items:
                self.carries(item.context_expr, live)
            return self.block(stmt.body, live)
        elif isinstance(stmt, ast.Try):
            before = set(live)
            passes = self.block(stmt.body, live)
            for handler in stmt.handlers:
                inner = set(before)
                if self.block(handler.body, inner):
                    live |= inner
                    passes = True
            self.block(stmt.orelse, live)
            return self.block(stmt.finalbody, live) and passes
        elif isinstance(stmt, ast.Match):
            merged = set(live)
            for case in stmt.cases:
                inner = set(live)
                if self.block(case.body, inner):
                    merged |= inner
            live |= merged
        elif isinstance(stmt, ast.Return | ast.Expr):
            if stmt.value is not None:
                self.carries(stmt.value, live)
            return not isinstance(stmt, ast.Return)
        elif isinstance(stmt, ast.Raise | ast.Break | ast.Continue):
            return False
        return True

    def branch(self, stmt: ast.If, live: set[str]) -> bool:
        """An ``if``: names live on either arm are live after it, unless it is a dtype guard."""
        self.carries(stmt.test, live)
        then, other = set(live), set(live)
        then_passes, other_passes = self.block(stmt.body, then), self.block(stmt.orelse, other)
        if not stmt.orelse:
            other -= {name for name in _compared_dtypes(stmt.test) if name not in then}
        live.clear()
        live |= then if then_passes else set()
        live |= other if other_passes else set()
        return then_passes or other_passes

    def bind(self, target: ast.expr, carried: bool, live: set[str]) -> None:
        """Make the names of an assignment target live or not."""
        if isinstance(target, ast.Name):
            (live.add if carried else live.discard)(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                self.bind(element, carried, live)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, carried, live)

    def carries(self, expr: ast.expr, live: set[str]) -> bool:
        """Whether an expression has the parameter's dtype; lists the calls inside it on the way."""
        if isinstance(expr, ast.Name):
            return expr.id in live
        if isinstance(expr, ast.Call):
            return self.call(expr, live)
        if isinstance(expr, ast.Attribute):
            inner = self.carries(expr.value, live)
            return inner and expr.attr in _SAME_ATTRIBUTES
        if isinstance(expr, ast.Compare):
            for part in (expr.left, *expr.comparators):
                self.carries(part, live)
            return False
        if isinstance(expr, ast.Subscript):
            return self.carries(expr.value, live)
        if isinstance(expr, ast.NamedExpr):
            carried = self.carries(expr.value, live)
            self.bind(expr.target, carried, live)
            return carried
        if isinstance(expr, ast.IfExp):
            self.carries(expr.test, live)
            return bool([arm for arm in (expr.body, expr.orelse) if self.carries(arm, live)])
        if isinstance(expr, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            inner_live = set(live)
            for generator in expr.generators:
                self.bind(generator.target, self.carries(generator.iter, inner_live), inner_live)
            return self.carries(expr.elt, inner_live)
        if isinstance(expr, ast.Lambda | ast.Constant):
            return False
        return bool([child for child in _children(expr) if self.carries(child, live)])

    def call(self, call: ast.Call, live: set[str]) -> bool:
        """A call: lists it when an argument carries the dtype, and says whether its result does."""
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        carried = [argument for argument in arguments if self.carries(argument, live)]
        func = call.func
        if isinstance(func, ast.Attribute) and self.carries(func.value, live):
            if func.attr == "to":
                return not _names_dtype(call)
            if func.attr == "view" and len(call.args) == 1 and _is_dtype(call.args[0]):
                return False
            return func.attr not in _CASTS | _METADATA
        if any(keyword.arg == "dtype" for keyword in call.keywords):
            return False
        kind = self.kind_of(call)
        if carried and kind is not None:
            self.uses.setdefault(call, UncastUse(call, carried[0], kind))
        return bool(carried) and kind in (None, "norm", "same")


def _children(expr: ast.expr) -> Iterator[ast.expr]:
    for child in ast.iter_child_nodes(expr):
        if isinstance(child, ast.expr):
            yield child


def _compared_dtypes(test: ast.expr) -> set[str]:
    """Names whose ``.dtype`` a test compares."""
    return {
        node.value.id
        for part in ast.walk(test)
        if isinstance(part, ast.Compare)
        for node in ast.walk(part)
        if isinstance(node, ast.Attribute) and node.attr == "dtype" and isinstance(node.value, ast.Name)
    }


def _is_dtype(expr: ast.expr) -> bool:
    text = ast.unparse(expr)
    return text.endswith("dtype") or text.startswith("torch.")


def _names_dtype(call: ast.Call) -> bool:
    """Whether a ``.to(...)`` call can change the dtype, rather than only the device."""
    for argument in [*call.args, *(k.value for k in call.keywords if k.arg in ("dtype", "other", None))]:
        text = ast.unparse(argument)
        if isinstance(argument, ast.Constant) or "device" in text.rpartition(".")[2]:
            continue
        return True
    return False
