"""``# dtypefix: ignore[rule] reason`` comments: what they silence, and what is wrong with them."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dtypefix.findings import Edit, Finding, Fix

if TYPE_CHECKING:
    from dtypefix.analysis.module import Module

MARKER = b"dtypefix:"
RULE = "ignore-comment"
_COMMENT = re.compile(
    r"#\s*dtypefix:\s*(?P<kind>file-)?ignore\s*(?:\[(?P<rules>[^\]]*)\])?(?P<reason>[^#]*)", re.IGNORECASE
)


@dataclass
class _Comment:
    """One suppression comment; ``lines`` is the range it covers, empty for the whole file."""

    line: int
    start: int
    end: int
    text: str
    rules: tuple[str, ...]
    reason: str
    whole_file: bool
    lines: range
    used: set[str] = field(default_factory=set)


def _comments(module: Module) -> list[_Comment]:
    found = []
    try:
        tokens = list(tokenize.tokenize(io.BytesIO(module.source).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return []
    logical_start: int | None = None
    for token in tokens:
        if token.type in (tokenize.NL, tokenize.NEWLINE):
            if token.type == tokenize.NEWLINE:
                logical_start = None
            continue
        if token.type != tokenize.COMMENT:
            if logical_start is None and token.type not in (
                tokenize.INDENT,
                tokenize.DEDENT,
                tokenize.ENCODING,
            ):
                logical_start = token.start[0]
            continue
        match = _COMMENT.match(token.string)
        if match is None:
            continue
        line, column = token.start
        prefix = module.lines[line - 1].decode(module.encoding)[:column]
        start = module.line_starts[line - 1] + len(prefix.encode(module.encoding))
        alone = not prefix.strip()
        covers = _next_statement(module, line) if alone else range(line, line + 1)
        found.append(
            _Comment(
                line=line,
                start=start,
                end=start + len(match.group(0).rstrip().encode(module.encoding)),
                text=match.group(0).rstrip(),
                rules=tuple(r.strip() for r in (match["rules"] or "").split(",") if r.strip()),
                reason=match["reason"].strip(),
                whole_file=bool(match["kind"]),
                lines=covers,
            )
        )
    return found


def _next_statement(module: Module, line: int) -> range:
    """The line of code below a comment that stands alone, further comments skipped."""
    for number in range(line + 1, len(module.lines) + 1):
        text = module.lines[number - 1].strip()
        if text and not text.startswith(b"#"):
            return range(number, number + 1)
    return range(0)


def apply(
    module: Module, findings: Sequence[Finding], selected: Set[str], known: Set[str]
) -> tuple[list[Finding], list[Finding]]:
    """Split findings into those that stand and those that a comment silences.

    A comment silences the rules it names on any line of the finding: at the end of one of its
    lines, or alone on the line above it. ``file-ignore`` silences them in the whole file. A
    comment without a reason, with an unknown rule, or that silences nothing is itself a finding.

    Args:
        module: the file.
        findings: what the rules reported.
        selected: the rules that ran; a comment for another rule is not called unused.
        known: every rule there is.
    """
    if MARKER not in module.source:
        return list(findings), []
    comments = _comments(module)
    kept: list[Finding] = []
    suppressed: list[Finding] = []
    for finding in findings:
        lines = range(finding.span.line, finding.span.end_line + 1)
        covering = [
            c
            for c in comments
            if finding.rule in c.rules and c.reason and (c.whole_file or _overlap(c.lines, lines))
        ]
        for comment in covering:
            comment.used.add(finding.rule)
        (suppressed if covering else kept).append(finding)
    for comment in comments:
        kept.extend(_problems(module, comment, selected, known))
    return kept, suppressed


def _overlap(a: range, b: range) -> bool:
    return bool(len(a)) and a.start < b.stop and b.start < a.stop


def _problems(module: Module, comment: _Comment, selected: Set[str], known: Set[str]) -> list[Finding]:
    problems: list[tuple[str, Fix | None, str | None]] = []
    if not comment.rules:
        problems.append(
            ("an ignore comment names the rules it silences: ignore[rule] reason", None, "name the rules")
        )
        return [_finding(module, comment, *p) for p in problems]
    unknown = [r for r in comment.rules if r not in known]
    unused = [r for r in comment.rules if r in selected and r not in comment.used]
    for rule in unknown:
        problems.append(
            (f"unknown rule {rule!r} in an ignore comment", _without(module, comment, rule), None)
        )
    if not comment.reason:
        problems.append(
            (
                "an ignore comment needs a reason after the bracket, and is not obeyed",
                None,
                "write the reason",
            )
        )
    else:
        for rule in unused:
            problems.append((f"nothing to ignore here for {rule}", _without(module, comment, rule), None))
    return [_finding(module, comment, *p) for p in problems]


def _without(module: Module, comment: _Comment, rule: str) -> Fix:
    """The comment with one rule fewer, or no comment at all when it was the only one."""
    left = [r for r in comment.rules if r != rule]
    if left:
        kind = "file-ignore" if comment.whole_file else "ignore"
        text = f"# dtypefix: {kind}[{', '.join(left)}] {comment.reason}".rstrip()
        return Fix("safe", f"stop ignoring {rule}", (Edit(comment.start, comment.end, text),))
    start, end = comment.start, comment.end
    line_start = module.line_starts[comment.line - 1]
    line_end = module.line_starts[comment.line]
    before = module.source[line_start:start]
    rest = module.source[end:line_end].strip()
    if not before.strip() and not rest:
        start, end = line_start, line_end
    elif not rest:
        start -= len(before) - len(before.rstrip())
        end += len(module.source[end:line_end].rstrip(b"\r\n"))
    return Fix("safe", "remove the ignore comment", (Edit(start, end, ""),))


def _finding(module: Module, comment: _Comment, message: str, fix: Fix | None, reason: str | None) -> Finding:
    span = module.span_of_bytes(comment.start, comment.end)
    return Finding(
        rule=RULE,
        group="core",
        level="warning",
        path=module.path,
        span=span,
        symbol="",
        message=message,
        evidence=(),
        code=comment.text,
        fix=fix,
        unfixed_reason=reason,
    )
