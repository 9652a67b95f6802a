"""The report for people: one entry per finding, then what it comes to and what to do next.

In a pipe an entry is one line, whatever its length. On a terminal it is broken to the width of the window,
and copies of a finding in the copies of a file for other platforms are folded into one entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from dtypefix.report.layout import width_of, wrapped
from dtypefix.report.model import Report, View
from dtypefix.report.paint import Paint, painter
from dtypefix.report.summary import write_summary
from dtypefix.report.twins import Group, grouped, short_places
from dtypefix.report.words import FIX_STYLES, LEVEL_STYLES, fix_label, kind_of, one_line, place_of, repair_of

INDENT = "    "


def render(report: Report, view: View, out: TextIO) -> None:
    """Write the findings, then a summary; coloured where ``out`` is a terminal."""
    paint = painter(out)
    width = width_of(out)
    shown = view.shown(report)
    for group in [Group(finding) for finding in shown] if width is None else grouped(shown):
        out.writelines(f"{line}\n" for line in _entry(group, view, paint, width))
    write_summary(report, view, out, paint, gap=bool(shown))


def _entry(group: Group, view: View, paint: Paint, width: int | None) -> Iterator[str]:
    finding = group.first
    path, _, numbers = place_of(finding).partition(f":{finding.span.line}:")
    place = f"{paint(path, 'bold')}:{finding.span.line}:{numbers}:"
    level = paint(finding.level, LEVEL_STYLES[finding.level])
    label = paint(fix_label(finding), FIX_STYLES[kind_of(finding)])
    line = f"{place} {level} {paint(finding.rule, 'cyan')}: {one_line(finding.message)} {label}"
    yield from wrapped(line, width, INDENT)
    if group.twins:
        twins = f"{paint('likewise', 'dim')} {', '.join(short_places(group))}"
        yield from wrapped(INDENT + twins, width, INDENT)
    if view.show_evidence:
        for step in finding.evidence:
            line = f"{paint(f'{one_line(step.path)}:{step.line}:', 'dim')} {one_line(step.text)}"
            yield from wrapped(INDENT + line, width, INDENT * 2)
        yield from wrapped(f"{INDENT}{paint('fix:', 'dim')} {repair_of(finding)}", width, INDENT * 2)
