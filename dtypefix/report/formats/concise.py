"""One line per finding whatever the width, for editors and scripts; then the summary."""

from __future__ import annotations

from typing import TextIO

from dtypefix.report.model import Report, View
from dtypefix.report.paint import painter
from dtypefix.report.summary import write_summary
from dtypefix.report.words import FIX_STYLES, LEVEL_STYLES, fix_label, kind_of, one_line, place_of


def render(report: Report, view: View, out: TextIO) -> None:
    """Write ``path:line:column: level rule: message [fix]`` for each finding."""
    paint = painter(out)
    shown = view.shown(report)
    for finding in shown:
        level = paint(finding.level, LEVEL_STYLES[finding.level])
        label = paint(fix_label(finding), FIX_STYLES[kind_of(finding)])
        out.write(f"{place_of(finding)}: {level} {finding.rule}: {one_line(finding.message)} {label}\n")
    write_summary(report, view, out, paint, gap=bool(shown))
