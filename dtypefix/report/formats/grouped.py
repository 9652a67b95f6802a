"""The findings under the file that they stand in; then the summary."""

from __future__ import annotations

from itertools import groupby
from typing import TextIO

from dtypefix.findings import Finding
from dtypefix.report.layout import width_of, wrapped
from dtypefix.report.model import Report, View
from dtypefix.report.paint import painter
from dtypefix.report.summary import write_summary
from dtypefix.report.words import FIX_STYLES, LEVEL_STYLES, fix_label, kind_of, one_line, repair_of


def render(report: Report, view: View, out: TextIO) -> None:
    """Write a heading per file and the findings of the file below it."""
    paint = painter(out)
    width = width_of(out)
    shown = view.shown(report)
    for index, (path, group) in enumerate(groupby(shown, key=lambda finding: finding.path)):
        findings = list(group)
        out.write(f"{chr(10) if index else ''}{paint(one_line(path), 'bold')}\n")
        column = max(len(_place(finding)) for finding in findings)
        indent = " " * (column + 4)
        for finding in findings:
            level = paint(finding.level, LEVEL_STYLES[finding.level])
            label = paint(fix_label(finding), FIX_STYLES[kind_of(finding)])
            line = f"{level} {paint(finding.rule, 'cyan')}: {one_line(finding.message)} {label}"
            lines = wrapped(f"{_place(finding):>{column + 2}}  {line}", width, indent)
            if view.show_evidence:
                for step in finding.evidence:
                    why = f"{indent}{one_line(step.path)}:{step.line}: {one_line(step.text)}"
                    lines += wrapped(why, width, indent + "  ")
                lines += wrapped(f"{indent}fix: {repair_of(finding)}", width, indent + "  ")
            out.writelines(f"{line}\n" for line in lines)
    write_summary(report, view, out, paint, gap=bool(shown))


def _place(finding: Finding) -> str:
    return f"{finding.span.line}:{finding.span.column}"
