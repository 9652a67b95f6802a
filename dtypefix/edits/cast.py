"""Casting a parameter once, in the right place of a function."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.project import Project
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.walking import children, walk
from dtypefix.edits.arguments import arguments_range, broken_call
from dtypefix.edits.layout import fit
from dtypefix.findings import Edit

_OF_SEQUENCES = frozenset({"isinstance", "cat", "concat", "stack", "hstack", "tuple", "list"})
_DERIVED_FREE = frozenset({"shape", "ndim", "dtype", "device", "dim", "size", "numel"})


def cast_before_use(
    module: Module,
    project: Project,
    function: FunctionNode,
    parameter: str,
    dtype: str,
    uses: Sequence[ast.Call],
) -> tuple[Edit, ...] | None:
    """Edits that cast ``parameter`` to ``dtype`` before anything is derived from it.

    The cast is a statement of its own behind the early returns and argument checks that open the
    function, in the branch that makes the calls when only one does: elsewhere what ``dtype`` reads
    need not be there. Where no statement can stand, the parameter is cast where it is used.

    Args:
        module: the file that holds the function.
        project: tells the line length that the tree's formatter uses.
        function: the function whose parameter is cast.
        parameter: its name.
        dtype: the expression of the dtype.
        uses: the calls that need the dtype.

    Returns:
        None when there is no place for the cast.
    """
    if _may_be_sequence(function, parameter):
        return None
    body = function.body
    position = 1 if ast.get_docstring(function, clean=False) is not None else 0
    found = _anchor(body, position, parameter, uses)
    if found is None:
        return None
    anchor, is_sure = found
    if not is_sure:
        return _inline(module, uses, parameter, dtype)
    if anchor.lineno == function.lineno or module.lines[anchor.lineno - 1][: anchor.col_offset].strip():
        return _inline(module, uses, parameter, dtype)
    line = anchor.lineno
    while module.lines[line - 2].strip().startswith(b"#") and line - 1 > _last_line_before(function, anchor):
        line -= 1
    indent = module.lines[anchor.lineno - 1][: anchor.col_offset].decode(module.encoding)
    statement = fit(f"{parameter} = {parameter}.to({dtype})", indent, project.line_length(module))
    at = module.line_starts[line - 1]
    return (Edit(at, at, statement + "\n"),)


def _last_line_before(function: FunctionNode, anchor: ast.stmt) -> int:
    """The last line of what precedes the anchor statement in the function."""
    ends = (getattr(node, "end_lineno", None) or 0 for node in walk(function))
    return max([function.lineno, *(end for end in ends if end < anchor.lineno)])


def _anchor(
    block: list[ast.stmt], position: int, parameter: str, uses: Sequence[ast.Call]
) -> tuple[ast.stmt, bool] | None:
    """The first statement behind the early returns and the argument checks of a block.

    It stands in an inner block where only that makes the calls. With it comes whether each way from
    there through its block makes one of them.
    """
    for index in range(position, len(block)):
        stmt = block[index]
        if isinstance(stmt, ast.Assert) or (isinstance(stmt, ast.If) and _is_guard(stmt)):
            if _derives(stmt, parameter):
                break
            position = index + 1
        elif _mentions(stmt, parameter) or isinstance(stmt, ast.Return):
            break
    rest = block[position:]
    calls = set(uses)
    index, holder = next(((i, s) for i, s in enumerate(rest) if calls & set(walk(s))), (0, None))
    # Calls that stand in a method that the parameter is handed to say nothing of this one's branches.
    if holder is None or _always_calls(rest, uses):
        return (rest[0], True) if rest else None
    if not calls <= set(walk(holder)) or any(_derives(s, parameter) for s in rest[:index]):
        return None
    for inner in _blocks(holder):
        if calls <= {node for stmt in inner for node in walk(stmt)}:
            return _anchor(inner, 0, parameter, uses)
    return (holder, False) if not _blocks(holder) else None


def _blocks(stmt: ast.stmt) -> list[list[ast.stmt]]:
    """The inner blocks of a statement whose header does not repeat."""
    if isinstance(stmt, ast.If):
        return [b for b in (stmt.body, stmt.orelse) if b]
    return [stmt.body] if isinstance(stmt, ast.With | ast.AsyncWith) else []


def _always_calls(block: Sequence[ast.stmt], uses: Sequence[ast.Call]) -> bool:
    """Whether each way through a block makes one of the calls, or ends in an exception."""
    for stmt in block:
        if isinstance(stmt, ast.If):
            if _always_calls([ast.Expr(stmt.test)], uses):
                return True
            if _always_calls(stmt.body, uses) and _always_calls(stmt.orelse, uses):
                return True
            if any(isinstance(n, ast.Return) for n in walk(stmt)) and not all(
                _always_calls(b, uses) or not any(isinstance(n, ast.Return) for s in b for n in walk(s))
                for b in (stmt.body, stmt.orelse)
            ):
                return False
        elif isinstance(stmt, ast.With | ast.AsyncWith):
            if _always_calls(stmt.body, uses):
                return True
        elif isinstance(stmt, ast.Raise) or any(_always_evaluates(stmt, use) for use in uses):
            return True
        elif any(isinstance(n, ast.Return) for n in walk(stmt)):
            return False
    return False


def _always_evaluates(stmt: ast.stmt, call: ast.Call) -> bool:
    """Whether a simple statement, or the header of a loop, always evaluates a call in it."""
    if isinstance(stmt, ast.For | ast.AsyncFor):
        return _always_evaluates(ast.Expr(stmt.iter), call)
    if not isinstance(stmt, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr | ast.Return):
        return False
    todo: list[ast.AST] = [stmt]
    while todo:
        node = todo.pop()
        if node is call:
            return True
        if isinstance(node, ast.IfExp):
            todo.append(node.test)
        elif isinstance(node, ast.BoolOp):
            todo.append(node.values[0])
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            todo.extend(children(node))
    return False


def _may_be_sequence(function: FunctionNode, parameter: str) -> bool:
    """Whether a function treats a parameter as a list of tensors, which has no dtype of its own."""

    def is_it(node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == parameter

    for node in walk(function):
        if isinstance(node, ast.Call) and node.args and is_it(node.args[0]):
            if last_name(node.func) in _OF_SEQUENCES:
                return True
        elif isinstance(node, ast.Starred) and is_it(node.value):
            return True
        elif isinstance(node, ast.Assign) and is_it(node.value):
            if any(isinstance(target, ast.Tuple | ast.List) for target in node.targets):
                return True
    return False


def _is_guard(stmt: ast.If) -> bool:
    return not stmt.orelse and isinstance(stmt.body[-1], ast.Return | ast.Raise)


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in walk(node))


def _derives(stmt: ast.stmt, parameter: str) -> bool:
    """Whether a statement makes anything of the parameter but look at its shape or give it back."""
    parents = {child: node for node in walk(stmt) for child in children(node)}
    for node in walk(stmt):
        if not isinstance(node, ast.Name) or node.id != parameter:
            continue
        around = parents.get(node)
        if isinstance(node.ctx, ast.Store):
            return True
        looks = isinstance(around, ast.Attribute) and around.attr in _DERIVED_FREE
        if not looks and not isinstance(around, ast.Return | ast.Compare | ast.FormattedValue):
            return True
    return False


def _inline(module: Module, uses: Sequence[ast.Call], parameter: str, dtype: str) -> tuple[Edit, ...] | None:
    """The cast in each of the calls; None when one is given something made of the parameter."""
    edits = []
    for call in uses:
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        named = [a for a in given if isinstance(a, ast.Name) and a.id == parameter]
        if not named:
            return None
        for argument in named:
            end = module.byte_range(argument)[1]
            edits.append(Edit(end, end, f".to({dtype})"))
    return tuple(edits) or None


def cast_expression(module: Module, expr: ast.expr, dtype: str, width: int | None = None) -> tuple[Edit, ...]:
    """Edits that cast an expression where it stands, in parentheses where it needs them.

    Args:
        module: the file that holds the expression.
        expr: what is cast.
        dtype: the expression of the dtype.
        width: the longest line allowed, in columns; where the expression ends its line, the cast is
            broken behind its parenthesis rather than exceed it. None keeps it on the line.
    """
    start, end = module.byte_range(expr)
    atom = isinstance(expr, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    opening, closing = ("", "") if atom else ("(", ")")
    cast = f"{closing}.to({dtype})"
    line_start = module.line_starts[module.position(end)[0] - 1]
    line = module.source[line_start:end].decode(module.encoding)
    rest = module.source[end:].split(b"\n", 1)[0].strip()
    if width is not None and not rest and line_start <= start:
        head = len(line) + len(opening)
        if head + len(cast) > width >= head + len(f"{closing}.to("):
            indent = line[: len(line) - len(line.lstrip())]
            cast = f"{closing}.to(\n{indent}    {dtype}\n{indent})"
    edits = (Edit(start, start, opening), Edit(end, end, cast))
    return edits if opening else edits[1:]


def cast_argument(module: Module, call: ast.Call, expr: ast.expr, dtype: str, width: int) -> tuple[Edit, ...]:
    """Edits that cast an argument of a call, which is broken behind its parenthesis where that takes it."""
    edits = cast_expression(module, expr, dtype)
    line = module.lines[call.lineno - 1].decode(module.encoding).rstrip()
    if call.lineno != call.end_lineno or len(line) + sum(len(e.replacement) for e in edits) <= width:
        return edits
    start, end = arguments_range(module, call)
    inside = module.source[start:end]
    for edit in reversed(edits):
        at = edit.start_byte - start
        inside = inside[:at] + edit.replacement.encode(module.encoding) + inside[at:]
    broken = broken_call(module, call, inside.decode(module.encoding).strip(), width)
    return (broken,) if broken else edits
