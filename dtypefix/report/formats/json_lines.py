"""One JSON object a line: a finding each, as the JSON report has them."""

from __future__ import annotations

import json
from typing import TextIO

from dtypefix.report.formats.json import finding_data
from dtypefix.report.model import Report, View


def render(report: Report, view: View, out: TextIO) -> None:
    """Write the findings, notes included; nothing at all if there are none."""
    for finding in report.findings:
        out.write(json.dumps(finding_data(finding), separators=(",", ":")) + "\n")
