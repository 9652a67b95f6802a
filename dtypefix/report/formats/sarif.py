"""SARIF 2.1.0, for GitHub code scanning and other viewers of findings.

Columns count code points, evidence is a code flow that ends at the finding, and fixes are replacements by
line and column, which need the file's text; where that cannot be read the fix is left out.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from dtypefix import __version__
from dtypefix.findings import Evidence, Finding, Fix, Span
from dtypefix.report.model import Report, RuleDoc, View

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "SRCROOT"

Data = dict[str, Any]


def render(report: Report, view: View, out: TextIO) -> None:
    """Write the log; notes are results of the level ``note``."""
    json.dump({"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(report)]}, out, indent=2)
    out.write("\n")


def _run(report: Report) -> Data:
    pages = {rule.name: rule for rule in report.rules}
    for finding in report.findings:
        pages.setdefault(finding.rule, RuleDoc(finding.rule, finding.group, finding.rule, ""))
    rules = [pages[name] for name in sorted(pages)]
    index = {rule.name: number for number, rule in enumerate(rules)}
    return {
        "tool": {
            "driver": {
                "name": "dtypefix",
                "semanticVersion": __version__,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"uri": Path(report.root).absolute().as_uri().rstrip("/") + "/"}},
        "invocations": [
            {
                "executionSuccessful": not report.skipped,
                "toolExecutionNotifications": [
                    {
                        "level": "error",
                        "message": {"text": skipped.reason},
                        "locations": [{"physicalLocation": {"artifactLocation": _artifact(skipped.path)}}],
                    }
                    for skipped in report.skipped
                ],
            }
        ],
        "results": [_result(report, finding, index[finding.rule]) for finding in report.findings],
    }


def _rule(rule: RuleDoc) -> Data:
    data: Data = {
        "id": rule.name,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "properties": {"tags": ["dtype", rule.group]},
    }
    if rule.page:
        what = re.search(r"^## What it finds\n+(.+?)(?=^## |\Z)", rule.page, re.MULTILINE | re.DOTALL)
        data["fullDescription"] = {"text": what[1].strip() if what else rule.summary}
        data["help"] = {"text": rule.page, "markdown": rule.page}
    return data


def _result(report: Report, finding: Finding, index: int) -> Data:
    own: Data = {"physicalLocation": _physical(finding.path, _region(finding.span))}
    if finding.symbol:
        own["logicalLocations"] = [{"fullyQualifiedName": finding.symbol}]
    reason = "" if finding.fix else f" No fix: {finding.unfixed_reason}."
    result: Data = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.level,
        "message": {"text": finding.message + reason},
        "locations": [own],
        "partialFingerprints": {"dtypefix/v1": finding.fingerprint},
    }
    if finding.evidence:
        steps = [{"location": _step(step, number)} for number, step in enumerate(finding.evidence)]
        end = {"location": {**own, "message": {"text": finding.message}}}
        result["relatedLocations"] = [step["location"] for step in steps]
        result["codeFlows"] = [{"threadFlows": [{"locations": [*steps, end]}]}]
    fix = _fix(report, finding.path, finding.fix) if finding.fix else None
    if fix is not None:
        result["fixes"] = [fix]
    return result


def _step(step: Evidence, number: int) -> Data:
    region = {"startLine": max(step.line, 1)}
    return {"id": number, "physicalLocation": _physical(step.path, region), "message": {"text": step.text}}


def _fix(report: Report, path: str, fix: Fix) -> Data | None:
    source = report.source(path)
    if source is None:
        return None
    replacements = []
    for edit in fix.edits:
        line, column = source.position(edit.start_byte)
        end_line, end_column = source.position(edit.end_byte)
        region = _region(Span(edit.start_byte, edit.end_byte, line, column, end_line, end_column))
        replacements.append({"deletedRegion": region, "insertedContent": {"text": edit.replacement}})
    return {
        "description": {"text": f"{fix.title} ({fix.applicability})"},
        "artifactChanges": [{"artifactLocation": _artifact(path), "replacements": replacements}],
    }


def _region(span: Span) -> Data:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }


def _physical(path: str, region: Data) -> Data:
    return {"artifactLocation": _artifact(path), "region": region}


def _artifact(path: str) -> Data:
    if path.startswith(("../", "/")):  # outside of the root, such as a release that bases come from
        return {"uri": quote(path)}
    return {"uri": quote(path), "uriBaseId": ROOT}
