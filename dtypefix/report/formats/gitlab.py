"""GitLab's Code Quality report: a JSON array of issues."""

from __future__ import annotations

import json
from typing import TextIO

from dtypefix.report.model import Report, View

SEVERITIES = {"error": "critical", "warning": "major", "note": "info"}


def render(report: Report, view: View, out: TextIO) -> None:
    """Write the array, notes included as ``info``; fingerprints are those of the other formats."""
    issues = [
        {
            "description": finding.message,
            "check_name": finding.rule,
            "fingerprint": finding.fingerprint,
            "severity": SEVERITIES[finding.level],
            "location": {
                "path": finding.path,
                "positions": {
                    "begin": {"line": finding.span.line, "column": finding.span.column},
                    "end": {"line": finding.span.end_line, "column": finding.span.end_column},
                },
            },
        }
        for finding in report.findings
    ]
    json.dump(issues, out, indent=2)
    out.write("\n")
