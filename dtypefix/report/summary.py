"""What a run comes to, for people: the counts by rule and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from dtypefix.findings import Finding
from dtypefix.report.layout import width_of, wrapped
from dtypefix.report.model import Report, View
from dtypefix.report.paint import Paint, painter
from dtypefix.report.words import KINDS, LEVEL_STYLES, kind_of, plural


def write_summary(report: Report, view: View, out: TextIO, paint: Paint, *, gap: bool) -> None:
    """Write the summary, after an empty line if there is a ``gap`` to make."""
    lines = list(_summary(report, view, paint))
    if gap and lines:
        out.write("\n")
    width = width_of(out)
    out.writelines(f"{part}\n" for line in lines for part in wrapped(line, width, "    "))


def headline(report: Report, out: TextIO) -> None:
    """Write the one line that says what was, or would be, fixed."""
    out.write(f"{painter(out)(_fixed(report), 'bold')}.\n")


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
    return ", ".join(plural(levels[level], level) for level in LEVEL_STYLES if levels[level])


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
        how = "likely right but not proved, for you to review"
        yield f"`dtypefix rewrite --unsafe-fixes` adds {kinds['unsafe']} unsafe, {how}."


def _fixes(number: int, kind: str) -> str:
    return f"{kind} fix" if number == 1 else f"{number} {kind} fixes"
