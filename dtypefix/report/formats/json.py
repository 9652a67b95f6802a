"""The report as one JSON document, schema 1."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, TextIO

from dtypefix import __version__
from dtypefix.findings import Finding
from dtypefix.report.model import Report, View

SCHEMA = 1


def render(report: Report, view: View, out: TextIO) -> None:
    """Write the document; every key is always present, and notes are listed whatever the view says."""
    json.dump(document(report), out, indent=2)
    out.write("\n")


def document(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "root": report.root,
        "findings": [finding_data(finding) for finding in report.findings],
        "skipped": [asdict(skipped) for skipped in report.skipped],
        "summary": report.summary,
    }


def finding_data(finding: Finding) -> dict[str, Any]:
    """One finding as plain data; ``fix`` is null exactly where ``unfixed_reason`` is not."""
    span, fix = finding.span, finding.fix
    return {
        "rule": finding.rule,
        "group": finding.group,
        "level": finding.level,
        "path": finding.path,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "symbol": finding.symbol,
        "message": finding.message,
        "evidence": [asdict(step) for step in finding.evidence],
        "fix": None if fix is None else asdict(fix),
        "unfixed_reason": finding.unfixed_reason,
        "fingerprint": finding.fingerprint,
    }
