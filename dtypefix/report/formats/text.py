"""The report for people: one line per finding, then what it comes to and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from dtypefix.findings import Finding, Level
from dtypefix.report.model import Report, View
from dtypefix.report.paint import Paint, painter

STYLES: dict[Level, str] = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}
FIX_STYLES = {"safe": "green", "unsafe": "magenta", "manual": "dim"}
KINDS = ("safe", "unsafe", "manual")


def render(report: Report, view: View, out: TextIO) -> None:
    """Write the findings, then a summary; coloured where ``out`` is a terminal."""
    paint = painter(out)
    shown = [finding for finding in report.findings if finding.counts or view.show_notes]
    for finding in shown:
        out.writelines(f"{line}\n" for line in _finding(finding, view, paint))
    summary = list(_summary(report, view, paint))
    if shown and summary:
        out.write("\n")
    out.writelines(f"{line}\n" for line in summary)


def headline(report: Report, out: TextIO) -> None:
    """Write the one line that says what was, or would be, fixed."""
    out.write(f"{painter(out)(_fixed(report), 'bold')}.\n")


def kind_of(finding: Finding) -> str:
    """How a finding can be repaired: ``safe``, ``unsafe`` or ``manual``."""
    return finding.fix.applicability if finding.fix else "manual"


def plural(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _finding(finding: Finding, view: View, paint: Paint) -> Iterator[str]:
    place = f"{paint(_one_line(finding.path), 'bold')}:{finding.span.line}:{finding.span.column}:"
    level = paint(finding.level, STYLES[finding.level])
    kind = kind_of(finding)
    label = paint(f"[{kind} fix]" if finding.fix else "[manual]", FIX_STYLES[kind])
    yield f"{place} {level} {paint(finding.rule, 'cyan')}: {_one_line(finding.message)} {label}"
    if view.show_evidence:
        for step in finding.evidence:
            yield f"    {paint(f'{_one_line(step.path)}:{step.line}:', 'dim')} {_one_line(step.text)}"
        yield f"    {paint('fix:', 'dim')} {_repair(finding)}"


def _repair(finding: Finding) -> str:
    if finding.fix:
        return f"{_one_line(finding.fix.title)} ({finding.fix.applicability})"
    return f"none: {_one_line(finding.unfixed_reason or '')}"


def _one_line(text: str) -> str:
    """``text`` without line breaks and without control characters that a terminal would obey."""
    flat = " ".join(text.split())
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in flat)


def _summary(report: Report, view: View, paint: Paint) -> Iterator[str]:
    counted = [finding for finding in report.findings if finding.counts]
    notes = len(report.findings) - len(counted)
    if report.fixed:
        yield paint(_fixed(report), "bold") + _tail(counted, report)
        yield from _by_rule(report.fixed)
    if counted:
        verb = "Left" if report.fixed else "Found"
        yield paint(
            f"{verb} {_counts(counted)} in {plural(len({f.path for f in counted}), 'file')}", "bold"
        ) + ("" if report.fixed else f" of {report.examined:,} examined")
        yield from _by_rule(counted)
    elif not report.fixed:
        yield f"{paint('No findings', 'bold')} in {plural(report.examined, 'file')}."
    yield from _asides(report, notes, view)
    yield from _next_step(report, counted)


def _fixed(report: Report) -> str:
    verb = "Would fix" if report.mode == "preview" else "Fixed"
    return f"{verb} {_counts(report.fixed)} in {plural(len(report.changed), 'file')}"


def _tail(counted: Sequence[Finding], report: Report) -> str:
    return "" if counted else f"; nothing is left in {plural(report.examined, 'file')} examined."


def _counts(findings: Iterable[Finding]) -> str:
    levels = Counter(finding.level for finding in findings)
    return ", ".join(plural(levels[level], level) for level in STYLES if levels[level])


def _by_rule(findings: Sequence[Finding]) -> Iterator[str]:
    rules = Counter(finding.rule for finding in findings)
    width = max(map(len, rules))
    for rule, number in sorted(rules.items(), key=lambda item: (-item[1], item[0])):
        kinds = Counter(kind_of(finding) for finding in findings if finding.rule == rule)
        split = ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind])
        yield f"  {rule:{width}}  {number:3}  ({split})"


def _asides(report: Report, notes: int, view: View) -> Iterator[str]:
    if notes and not view.show_notes:
        yield f"{plural(notes, 'note')} not shown: --show-notes lists them."
    if report.suppressed:
        yield f"{plural(len(report.suppressed), 'finding')} suppressed by comments."
    if report.baselined:
        yield f"{plural(len(report.baselined), 'finding')} known from the baseline."
    if report.deferred:
        yield f"Left {_fixes(len(report.deferred), 'overlapping')} for another run."
    if report.skipped:
        yield f"{plural(len(report.skipped), 'file')} skipped."


def _next_step(report: Report, counted: Sequence[Finding]) -> Iterator[str]:
    kinds = Counter(kind_of(finding) for finding in counted)
    if report.mode == "scan" and kinds["safe"]:
        yield f"`dtypefix rewrite` applies the {_fixes(kinds['safe'], 'safe')}; --diff only shows them."
    if kinds["unsafe"]:
        yield f"`dtypefix rewrite --unsafe-fixes` adds {kinds['unsafe']} unsafe, for you to review."


def _fixes(number: int, kind: str) -> str:
    return f"{kind} fix" if number == 1 else f"{number} {kind} fixes"
