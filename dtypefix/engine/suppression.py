"""``# dtypefix: ignore[rule] reason`` comments: what they silence, and what is wrong with them."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dtypefix.findings import Applicability, Edit, Finding, Fix

if TYPE_CHECKING:
    import tokenize

    from dtypefix.analysis.module import Module

MARKER = b"dtypefix:"
RULE = "ignore-comment"
# A reason ends where another comment begins; "#42588" in it is the number of an issue.
_COMMENT = re.compile(
    r"#\s*dtypefix:\s*(?P<kind>file-)?ignore\s*(?:\[(?P<rules>[^\]]*)\])?(?P<reason>(?:[^#]|#(?=\d))*)",
    re.IGNORECASE,
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
    import tokenize

    try:
        tokens = list(tokenize.tokenize(io.BytesIO(module.source).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return []
    return [
        _comment(module, token, match)
        for token in tokens
        if token.type == tokenize.COMMENT
        for match in _COMMENT.finditer(token.string)
    ]


def _comment(module: Module, token: tokenize.TokenInfo, match: re.Match[str]) -> _Comment:
    line, column = token.start
    prefix = module.lines[line - 1].decode(module.encoding)[:column]
    before = prefix + token.string[: match.start()]
    start = module.line_starts[line - 1] + len(before.encode(module.encoding))
    text = match.group(0).rstrip()
    return _Comment(
        line=line,
        start=start,
        end=start + len(text.encode(module.encoding)),
        text=text,
        rules=tuple(r.strip() for r in (match["rules"] or "").split(",") if r.strip()),
        reason=match["reason"].strip(),
        whole_file=bool(match["kind"]),
        lines=range(line, line + 1) if prefix.strip() else _next_statement(module, line),
    )


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
        selected: the rules that ran; a comment for another rule is not called unused, and without
            ``ignore-comment`` among them nothing is said of comments.
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
    if RULE in selected:
        for comment in comments:
            kept.extend(_problems(module, comment, findings, selected, known))
    return kept, suppressed


def _overlap(a: range, b: range) -> bool:
    return bool(len(a)) and a.start < b.stop and b.start < a.stop


def _problems(
    module: Module, comment: _Comment, findings: Sequence[Finding], selected: Set[str], known: Set[str]
) -> list[Finding]:
    import difflib

    problems: list[tuple[str, Fix]] = []
    if not comment.rules:
        message = "an ignore comment names the rules it silences, and without them is not obeyed"
        problems.append((message, _with_rules(module, comment, findings)))
        return [_finding(module, comment, *problem) for problem in problems]
    for rule in comment.rules:
        if rule not in known:
            near = difflib.get_close_matches(rule, sorted(known), 1, 0.6)
            hint = f", did you mean {near[0]!r}?" if near else ""
            message = f"unknown rule {rule!r} in an ignore comment{hint}"
            problems.append((message, _without(module, comment, rule)))
    if not comment.reason:
        message = "an ignore comment gives a reason after the bracket, and without one is not obeyed"
        problems.append((message, _removed(module, comment, "unsafe")))
    else:
        for rule in comment.rules:
            if rule in selected and rule not in comment.used:
                problems.append((f"nothing to ignore here for {rule}", _without(module, comment, rule)))
    return [_finding(module, comment, *problem) for problem in problems]


def _with_rules(module: Module, comment: _Comment, findings: Sequence[Finding]) -> Fix:
    """The comment with the rules that are reported where it stands, or no comment where none is."""
    there = sorted(
        {
            finding.rule
            for finding in findings
            if comment.whole_file
            or _overlap(comment.lines, range(finding.span.line, finding.span.end_line + 1))
        }
    )
    if not there or not comment.reason:
        return _removed(module, comment, "unsafe")
    text = f"# dtypefix: {_kind(comment)}[{', '.join(there)}] {comment.reason}"
    return Fix("unsafe", "name the rules that are reported here", (Edit(comment.start, comment.end, text),))


def _kind(comment: _Comment) -> str:
    return "file-ignore" if comment.whole_file else "ignore"


def _without(module: Module, comment: _Comment, rule: str) -> Fix:
    """The comment with one rule fewer, or no comment at all when it was the only one."""
    left = [r for r in comment.rules if r != rule]
    if not left:
        return _removed(module, comment, "safe")
    text = f"# dtypefix: {_kind(comment)}[{', '.join(left)}] {comment.reason}".rstrip()
    return Fix("safe", f"stop ignoring {rule}", (Edit(comment.start, comment.end, text),))


def _removed(module: Module, comment: _Comment, applicability: Applicability) -> Fix:
    start, end = comment.start, comment.end
    line_start = module.line_starts[comment.line - 1]
    line_end = module.line_starts[comment.line]
    before = module.source[line_start:start]
    rest = module.source[end:line_end].strip()
    if not before.strip() and not rest:
        start, end = line_start, line_end
    elif rest:
        end += len(module.source[end:line_end]) - len(module.source[end:line_end].lstrip())
    else:
        start -= len(before) - len(before.rstrip())
        end += len(module.source[end:line_end].rstrip(b"\r\n"))
    return Fix(applicability, "remove the ignore comment", (Edit(start, end, ""),))


def _finding(module: Module, comment: _Comment, message: str, fix: Fix) -> Finding:
    return Finding(
        rule=RULE,
        group="core",
        level="warning",
        path=module.path,
        span=module.span_of_bytes(comment.start, comment.end),
        symbol="",
        message=message,
        evidence=(),
        code=comment.text,
        fix=fix,
    )
