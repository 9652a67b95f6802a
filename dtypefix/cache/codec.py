"""Results as plain JSON values and back."""

from __future__ import annotations

from typing import Any

from dtypefix.findings import Edit, Evidence, FileResult, Finding, Fix, Span


def encode(result: FileResult) -> list[Any]:
    """The findings of a file that could be examined; ``[]`` for a file without any."""
    if not result.findings and not result.suppressed:
        return []
    return [[_finding(f) for f in result.findings], [_finding(f) for f in result.suppressed]]


def decode(path: str, stored: list[Any]) -> FileResult:
    """The result that :func:`encode` was given.

    Raises:
        ValueError, TypeError, LookupError: the values are not of its making.
    """
    if not stored:
        return FileResult(path)
    kept, suppressed = stored
    return FileResult(path, tuple(map(_decoded, kept)), tuple(map(_decoded, suppressed)))


def _finding(f: Finding) -> list[Any]:
    s = f.span
    return [
        *(f.rule, f.group, f.level, f.path, f.symbol, f.message, f.code, f.unfixed_reason, f.fingerprint),
        [s.start_byte, s.end_byte, s.line, s.column, s.end_line, s.end_column],
        [[e.path, e.line, e.text] for e in f.evidence],
        f.fix
        and [
            f.fix.applicability,
            f.fix.title,
            [[e.start_byte, e.end_byte, e.replacement] for e in f.fix.edits],
        ],
    ]


def _decoded(stored: list[Any]) -> Finding:
    rule, group, level, path, symbol, message, code, reason, fingerprint, span, evidence, fix = stored
    return Finding(
        rule=rule,
        group=group,
        level=level,
        path=path,
        span=Span(*span),
        symbol=symbol,
        message=message,
        evidence=tuple(Evidence(*step) for step in evidence),
        code=code,
        fix=Fix(fix[0], fix[1], tuple(Edit(*edit) for edit in fix[2])) if fix else None,
        unfixed_reason=reason,
        fingerprint=fingerprint,
    )
