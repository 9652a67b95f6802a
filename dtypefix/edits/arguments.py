"""Adding a keyword argument to a call, and taking one away."""

from __future__ import annotations

import ast

from dtypefix.analysis.module import Module
from dtypefix.analysis.project import DEFAULT_LINE_LENGTH
from dtypefix.findings import Edit

_BLANK = b" \t"


def keyword_edit(
    module: Module, call: ast.Call, name: str, value: str, width: int = DEFAULT_LINE_LENGTH
) -> Edit:
    """The edit that appends ``name=value`` to a call that has arguments.

    The argument gets a line of its own where the others have theirs, and where the line has no room
    for it; a call that is the last thing on a line too short for it is broken behind its parenthesis.
    """
    spans = [module.byte_range(argument) for argument in (*call.args, *call.keywords)]
    start, end = max(spans)
    end = _past_parentheses(module, call, end)
    line, first = module.position(start)[0], module.position(min(spans)[0])[0]
    added = f"{name}={value}"
    text = module.lines[line - 1].decode(module.encoding).rstrip()
    fits = len(text) + len(added) + 2 <= width
    if first == module.position(module.byte_range(call.func)[1])[0]:
        broken = None if fits else _broken(module, call, added, width)
        return broken or Edit(end, end, f", {added}")
    indent = text[: len(text) - len(text.lstrip())]
    comma = _comma_behind(module, call, end)
    if comma is None:
        together = first == line and fits
        return Edit(end, end, f", {added}" if together else f",\n{indent}{added}")
    behind = module.line_starts[module.position(comma)[0]]
    if behind > module.byte_range(call)[1]:
        return Edit(comma, comma, f"\n{indent}{added},")
    # Behind the comment that may stand on the last argument's line.
    return Edit(behind, behind, f"{indent}{added},\n")


def _broken(module: Module, call: ast.Call, added: str, width: int) -> Edit | None:
    """The edit that puts a call's arguments and a new one on a line of their own, where that is simple."""
    start, end = arguments_range(module, call)
    inside = module.source[start:end].decode(module.encoding).strip().rstrip(",")
    return broken_call(module, call, f"{inside}, {added}", width)


def arguments_range(module: Module, call: ast.Call) -> tuple[int, int]:
    """The offsets behind a call's opening and before its closing parenthesis."""
    return module.source.index(b"(", module.byte_range(call.func)[1]) + 1, module.byte_range(call)[1] - 1


def broken_call(module: Module, call: ast.Call, arguments: str, width: int) -> Edit | None:
    """The edit that gives a one-line call new arguments, on a line of their own between its parentheses.

    Args:
        module: the file that holds the call.
        call: a call that is all of a statement, or all that is assigned or returned.
        arguments: what is to stand between the parentheses.
        width: the longest line allowed, in columns.

    Returns:
        None where the call is not the end of its line, spans lines, or the arguments do not fit.
    """
    start, end = module.byte_range(call)
    line_start = module.line_starts[module.position(start)[0] - 1]
    behind = module.source[end:].split(b"\n", 1)[0].strip()
    whole = isinstance(module.parents.get(call), ast.Assign | ast.AnnAssign | ast.Return | ast.Expr)
    if behind or not whole or call.lineno != call.end_lineno:
        return None
    before = module.source[line_start:start].decode(module.encoding)
    indent = before[: len(before) - len(before.lstrip())]
    line = f"{indent}    {arguments}"
    return Edit(*arguments_range(module, call), f"\n{line}\n{indent}") if len(line) <= width else None


def drop_argument(module: Module, call: ast.Call, keyword: ast.keyword) -> Edit:
    """The edit that takes ``keyword`` out of a call, with its comma and the line it has to itself."""
    start, end = module.byte_range(keyword)
    source = module.source
    comma = _comma_behind(module, call, end)
    if comma is None:
        ends = [module.byte_range(a)[1] for a in (*call.args, *call.keywords)]
        previous = max((e for e in ends if e <= start), default=module.byte_range(call.func)[1])
        before = source.rfind(b",", previous, start)
        if b"#" not in source[previous:start]:
            return Edit(before if before >= 0 else start, end, "")
        comma = end
    line_start = module.line_starts[module.position(start)[0] - 1]
    line_end = module.line_starts[module.position(comma)[0]]
    if not source[line_start:start].strip() and not source[comma:line_end].strip():
        return Edit(line_start, line_end, "")
    while source[comma : comma + 1] in (b" ", b"\t"):
        comma += 1
    return Edit(start, comma, "")


def _past_parentheses(module: Module, call: ast.Call, offset: int) -> int:
    """The offset behind the parentheses that close around an argument."""
    close = module.byte_range(call)[1] - 1
    while True:
        rest = module.source[offset:close]
        blank = len(rest) - len(rest.lstrip(_BLANK + b"\r\n"))
        if rest[blank : blank + 1] != b")":
            return offset
        offset += blank + 1


def _comma_behind(module: Module, call: ast.Call, offset: int) -> int | None:
    """The offset behind the comma that follows an argument; None when the call ends without one."""
    rest = module.source[offset : module.byte_range(call)[1] - 1]
    blank = len(rest) - len(rest.lstrip(_BLANK + b"\r\n"))
    return offset + blank + 1 if rest[blank : blank + 1] == b"," else None
