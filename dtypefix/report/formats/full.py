"""Each finding with its code, the reasons for it and the change that its fix makes; then the summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from rich.cells import cell_len, set_cell_size

from dtypefix.findings import Finding
from dtypefix.report.change import changed_lines
from dtypefix.report.layout import width_of, wrapped
from dtypefix.report.model import Report, View
from dtypefix.report.paint import Paint, painter
from dtypefix.report.source import SourceText
from dtypefix.report.summary import write_summary
from dtypefix.report.twins import Group, grouped, short_places
from dtypefix.report.words import (
    FIX_STYLES,
    LEVEL_STYLES,
    fix_label,
    kind_of,
    one_line,
    place_of,
    printable,
    repair_of,
)

CONTEXT = 2  # lines of code above and below the marked ones
LONGEST = 12  # lines of code that are marked before the rest is left out
TAB = 4


def render(report: Report, view: View, out: TextIO) -> None:
    """Write a frame of code per finding; platform twins share one."""
    paint = painter(out)
    width = width_of(out)
    shown = view.shown(report)
    for group in grouped(shown):
        out.writelines(f"{line}\n" for line in _entry(report, group, paint, width))
        out.write("\n")
    write_summary(report, view, out, paint, gap=False)


def _entry(report: Report, group: Group, paint: Paint, width: int | None) -> Iterator[str]:
    finding = group.first
    level = paint(finding.level, LEVEL_STYLES[finding.level])
    label = paint(fix_label(finding), FIX_STYLES[kind_of(finding)])
    yield from wrapped(f"{level} {paint(finding.rule, 'cyan')}: {one_line(finding.message)} {label}", width)
    source = report.source(finding.path)
    pad = " " * len(str(min(finding.span.end_line, finding.span.line + LONGEST) + CONTEXT))
    inside = f" in {one_line(finding.symbol)}" if finding.symbol else ""
    yield f"{pad}{paint('-->', 'blue')} {place_of(finding)}{inside}"
    if source is not None and source.line(finding.span.line):
        yield from _frame(finding, source, len(pad), paint, width)
    bullet = f"{pad} {paint('=', 'blue')}"
    indent = f"{pad}   "
    for step in finding.evidence:
        same = step.path == finding.path
        where = f"line {step.line}:" if same else f"{one_line(step.path)}:{step.line}:"
        yield from wrapped(f"{bullet} {paint(where, 'dim')} {one_line(step.text)}", width, indent)
    yield from wrapped(f"{bullet} {paint('fix:', 'bold')} {repair_of(finding)}", width, indent)
    if finding.fix is not None and source is not None:
        for line in changed_lines(source, finding.fix, context=0):
            style = {"-": "red", "+": "green"}.get(line.sign, "dim")
            room = None if width is None else width - len(indent) - 2
            yield f"{indent}{paint(f'{line.sign} {_code(line.text, room)}'.rstrip(), style)}"
    if group.twins:
        yield from wrapped(f"{bullet} likewise in {', '.join(short_places(group))}", width, indent)


def _frame(
    finding: Finding, source: SourceText, gutter: int, paint: Paint, width: int | None
) -> Iterator[str]:
    span = finding.span
    bar = paint("|", "blue")
    room = None if width is None else width - gutter - 3
    last = min(span.end_line, span.line + LONGEST)
    yield f"{' ' * gutter} {bar}"
    for number in range(max(span.line - CONTEXT, 1), min(last + CONTEXT, len(source.lines)) + 1):
        text = source.line(number)
        yield f"{paint(f'{number:>{gutter}}', 'blue')} {bar} {_code(text, room)}".rstrip()
        if not span.line <= number <= last:
            continue
        start = span.column - 1 if number == span.line else len(text) - len(text.lstrip())
        end = span.end_column - 1 if number == span.end_line else len(text)
        before, marked = cell_len(_code(text[:start])), cell_len(_code(text[:end]))
        if room is not None:  # what is cut off has no column to mark
            before, marked = min(before, room - 1), min(marked, room)
        carets = paint("^" * max(marked - before, 1), LEVEL_STYLES[finding.level])
        yield f"{' ' * gutter} {bar} {' ' * before}{carets}"
    yield f"{' ' * gutter} {bar}"


def _code(text: str, room: int | None = None) -> str:
    """Code as a terminal can show it, cut to ``room`` columns: broken lines would not show columns."""
    shown = printable(text.expandtabs(TAB))
    if room is None or cell_len(shown) <= room:
        return shown
    return f"{set_cell_size(shown, max(room - 1, 0))}…"
