"""Ignore comments for findings: where each can stand, and the edits that put it there."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterable

from dtypefix.analysis.module import Module
from dtypefix.edits import check, compose
from dtypefix.edits.fix_file import FixedFile
from dtypefix.engine.suppression import RULE
from dtypefix.errors import UserError
from dtypefix.findings import Edit, FileResult, Finding, Skipped


def checked_reason(reason: str) -> str:
    """A reason as it can stand in a comment.

    Raises:
        UserError: it is empty, or would not be read back whole.
    """
    text = " ".join(reason.split())
    if not text:
        raise UserError("--reason: say why the findings may stay")
    if re.search(r"#(?!\d)", text):
        raise UserError("--reason: a # begins another comment, except before a number")
    return text


def silence_file(
    path: str,
    source: bytes,
    examine: Callable[[bytes], FileResult],
    wanted: Callable[[tuple[Finding, ...]], tuple[Finding, ...]] | None,
    reason: str,
    line_length: int,
) -> FixedFile:
    """Add an ignore comment for every warning and error of a file, in memory.

    Args:
        path: how the file is named in reports.
        source: its bytes.
        examine: runs the rules over a version of the file.
        wanted: those of the file's findings that are to be silenced; all without it.
        reason: the text after the brackets, see :func:`checked_reason`.
        line_length: columns that a line may have; a comment that does not fit goes above.

    Returns:
        ``remaining`` are the findings for which no comment can stand; ``problem`` is set where the file
        was left as it was.
    """
    first = examine(source)
    asked = first.findings if wanted is None else wanted(first.findings)
    todo = [f for f in asked if f.counts and f.rule != RULE]
    if first.skipped is not None or not todo:
        return FixedFile(path, source, source, (), first, original=first)
    module = Module(path, source)
    edits = _edits(module, todo, reason, line_length)
    problem = None
    try:
        after = compose.apply(source, edits, module.encoding)
        problem = check.problem_with(path, source, after, edits)
    except UnicodeEncodeError:
        after, problem = source, f"the reason cannot be written in {module.encoding}"
    result = first
    if problem is None and edits:
        result = examine(after)
        faulty = sum(f.rule == RULE for f in first.findings) < sum(f.rule == RULE for f in result.findings)
        if result.skipped is not None or faulty:
            problem = "a comment would not silence its finding"
    if problem is not None:
        left = Skipped(path, f"left as it was: {problem}")
        return FixedFile(path, source, source, (), first, problem=left, original=first)
    return FixedFile(path, source, after, (), result, original=first)


def _edits(module: Module, findings: Iterable[Finding], reason: str, line_length: int) -> list[Edit]:
    ends = _commentable(module)
    rules: dict[int, set[str]] = {}
    for finding in findings:
        lines = range(finding.span.line, finding.span.end_line + 1)
        line = next((line for line in lines if line in ends), None)
        if line is None and (finding.span.line - 1 in ends or finding.span.line == 1):
            line = finding.span.line
        if line is not None:
            rules.setdefault(line, set()).add(finding.rule)
    edits = []
    for line, names in sorted(rules.items()):
        comment = f"# dtypefix: ignore[{', '.join(sorted(names))}] {reason}"
        edits.append(_edit(module, line, comment, line_length, ends))
    return edits


def _commentable(module: Module) -> set[int]:
    """The lines at whose end a comment can stand: not inside a string, not continued by a backslash."""
    tokens = tokenize.tokenize(io.BytesIO(module.source).readline)
    return {token.start[0] for token in tokens if token.type in (tokenize.NEWLINE, tokenize.NL)}


def _edit(module: Module, line: int, comment: str, line_length: int, ends: set[int]) -> Edit:
    start = module.line_starts[line - 1]
    raw = module.lines[line - 1]
    text = raw.decode(module.encoding if module.encoding != "utf-8-sig" else "utf-8")
    code = text.rstrip()
    fits = len(code) + 2 + len(comment) <= line_length
    can_stand_above = line == 1 or line - 1 in ends
    if line in ends and (fits or not can_stand_above):
        end = start + len(raw) - len(text[len(code) :].encode(module.encoding.replace("-sig", "")))
        return Edit(end, end, f"  {comment}")
    indent = text[: len(text) - len(text.lstrip())]
    return Edit(start, start, f"{indent}{comment}\n")
