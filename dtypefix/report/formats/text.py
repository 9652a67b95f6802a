"""The report for people: the findings, then what they come to and what to do next.

In a pipe a finding is one line, whatever its length. On a terminal what several findings say is said once,
with their places below it, broken to the width of the window; and copies of a finding in the copies of a
file for other platforms share one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from dtypefix.findings import LEVELS, Finding
from dtypefix.report.layout import plain, width_of, wrapped
from dtypefix.report.model import Report, View
from dtypefix.report.paint import Paint, painter
from dtypefix.report.summary import write_summary
from dtypefix.report.twins import Group, grouped, short_places
from dtypefix.report.words import FIX_STYLES, LEVEL_STYLES, fix_label, kind_of, one_line, place_of, repair_of

INDENT = "    "
NO_BREAK = "\u00a0"


def render(report: Report, view: View, out: TextIO) -> None:
    """Write the findings, then a summary; coloured where ``out`` is a terminal."""
    shown = view.shown(report)
    write_entries(shown, view, out)
    # On a terminal every entry ends with an empty line of its own.
    write_summary(report, view, out, painter(out), gap=bool(shown) and width_of(out) is None)


def write_entries(findings: Sequence[Finding], view: View, out: TextIO) -> None:
    """Write findings without a summary."""
    paint = painter(out)
    width = width_of(out)
    if width is None:
        lines = (line for finding in findings for line in _one(finding, view, paint))
    else:
        lines = (line for groups in _alike(findings) for line in _many(groups, view, paint, width))
    out.writelines(f"{line}\n" for line in lines)


def _one(finding: Finding, view: View, paint: Paint) -> Iterator[str]:
    yield f"{_place(finding, paint)}: {_statement(finding, paint)}"
    if view.show_evidence:
        yield from _evidence(finding, paint, None, INDENT)


def _alike(findings: Iterable[Finding]) -> list[list[Group]]:
    """The findings that say the same, platform twins folded: the gravest first, then by rule."""
    alike: dict[tuple[str, ...], list[Group]] = {}
    for group in sorted(grouped(findings), key=lambda g: (LEVELS.index(g.first.level), g.first.rule)):
        finding = group.first
        key = (finding.level, finding.rule, finding.message, kind_of(finding))
        alike.setdefault(key, []).append(group)
    return list(alike.values())


def _many(groups: list[Group], view: View, paint: Paint, width: int) -> Iterator[str]:
    label = fix_label(groups[0].first)
    whole = label.replace(" ", NO_BREAK)
    statement = _statement(groups[0].first, paint).replace(label, whole)
    yield from (line.replace(whole, label) for line in wrapped(statement, width, INDENT))
    for group in groups:
        place = f"  {_place(group.first, paint)}"
        symbol = one_line(group.first.symbol)
        fits = symbol and len(plain(place)) + 2 + len(symbol) <= width
        yield f"{place}  {paint(symbol, 'dim')}" if fits else place
        if group.twins:
            twins = f"{paint('likewise', 'dim')} {', '.join(short_places(group))}"
            yield from wrapped(INDENT + twins, width, INDENT)
        if view.show_evidence:
            yield from _evidence(group.first, paint, width, INDENT)
    yield ""


def _place(finding: Finding, paint: Paint) -> str:
    place = place_of(finding)
    path = place.removesuffix(f":{finding.span.line}:{finding.span.column}")
    return paint(path, "bold") + place.removeprefix(path)


def _statement(finding: Finding, paint: Paint) -> str:
    level = paint(finding.level, LEVEL_STYLES[finding.level])
    label = paint(fix_label(finding), FIX_STYLES[kind_of(finding)])
    return f"{level} {paint(finding.rule, 'cyan')}: {one_line(finding.message)} {label}"


def _evidence(finding: Finding, paint: Paint, width: int | None, indent: str) -> Iterator[str]:
    for step in finding.evidence:
        line = f"{paint(f'{one_line(step.path)}:{step.line}:', 'dim')} {one_line(step.text)}"
        yield from wrapped(indent + line, width, indent * 2)
    yield from wrapped(f"{indent}{paint('fix:', 'dim')} {repair_of(finding)}", width, indent * 2)
