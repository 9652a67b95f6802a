"""Casting a parameter once, in the right place of a function."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.project import Project
from dtypefix.analysis.walking import children, walk
from dtypefix.edits.arguments import arguments_range, broken_call
from dtypefix.edits.layout import fit
from dtypefix.findings import Edit

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
    function. Where the body stands on the ``def`` line, the parameter is cast where it is used.

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
    anchor = _anchor(function, parameter)
    if anchor is None:
        return None
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
    index = function.body.index(anchor)
    if index:
        return function.body[index - 1].end_lineno or anchor.lineno
    header = [*walk(function.args), *([function.returns] if function.returns else [])]
    ends: list[int] = [n.end_lineno for n in header if isinstance(n, ast.arg | ast.expr) and n.end_lineno]
    return max([function.lineno, *ends])


def _anchor(function: FunctionNode, parameter: str) -> ast.stmt | None:
    """The first statement behind the docstring, the early returns and the argument checks."""
    body = function.body
    position = 1 if ast.get_docstring(function, clean=False) is not None else 0
    for index in range(position, len(body)):
        stmt = body[index]
        if isinstance(stmt, ast.Assert) or (isinstance(stmt, ast.If) and _is_guard(stmt)):
            if _derives(stmt, parameter):
                break
            position = index + 1
        elif _mentions(stmt, parameter) or isinstance(stmt, ast.Return):
            break
    return body[position] if position < len(body) else None


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
    edits = []
    for call in uses:
        for argument in call.args:
            if isinstance(argument, ast.Name) and argument.id == parameter:
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
