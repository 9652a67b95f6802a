"""Workflow commands that GitHub Actions shows as annotations of the changed files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from dtypefix.report.model import Report, View
from dtypefix.report.words import fix_label

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report, view: View, out: TextIO) -> None:
    """Write one command per finding, and one warning per file that could not be read."""
    for finding in view.shown(report):
        span = finding.span
        place: dict[str, str | int] = {
            "file": finding.path,
            "line": span.line,
            "endLine": span.end_line,
            "title": f"dtypefix ({finding.rule})",
        }
        if span.line == span.end_line:  # GitHub takes columns of a single line only
            place |= {"col": span.column, "endColumn": span.end_column}
        message = f"{finding.message} {fix_label(finding)}"
        out.write(f"::{COMMANDS[finding.level]} {_properties(place)}::{_data(message)}\n")
    for skipped in report.skipped:
        whole = {"file": skipped.path, "title": "dtypefix"}
        out.write(f"::warning {_properties(whole)}::{_data(skipped.reason)}\n")


def _properties(values: Mapping[str, str | int]) -> str:
    return ",".join(
        f"{name}={_data(str(value)).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in values.items()
    )


def _data(text: str) -> str:
    """``text`` escaped as the runner's own toolkit escapes the data of a command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
