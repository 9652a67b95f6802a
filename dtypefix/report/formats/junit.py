"""JUnit XML: a suite per file, a failed test case per finding."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TextIO
from xml.etree import ElementTree

from dtypefix.report.model import Report, View
from dtypefix.report.words import place_of, repair_of

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report, view: View, out: TextIO) -> None:
    """Write the document; a run with nothing to report is one case that passed."""
    shown = view.shown(report)
    total = {"tests": str(len(shown) + len(report.skipped) or 1), "failures": str(len(shown))}
    errors = {"errors": str(len(report.skipped))}
    root = ElementTree.Element("testsuites", {"name": "dtypefix", **total, **errors})
    for path, group in groupby(shown, key=lambda finding: finding.path):
        findings = list(group)
        number = str(len(findings))
        suite = _element(root, "testsuite", name=path, tests=number, failures=number, errors="0")
        for finding in findings:
            name = f"{finding.rule}:{finding.span.line}:{finding.span.column}"
            case = _element(
                suite, "testcase", name=name, classname=path, file=path, line=str(finding.span.line)
            )
            failure = _element(case, "failure", message=finding.message, type=finding.level)
            lines = [f"{place_of(finding)}: {finding.message}"]
            lines += [f"{step.path}:{step.line}: {step.text}" for step in finding.evidence]
            failure.text = _clean("\n".join([*lines, f"fix: {repair_of(finding)}"]))
    for skipped in report.skipped:
        suite = _element(root, "testsuite", name=skipped.path, tests="1", failures="0", errors="1")
        case = _element(suite, "testcase", name="read", classname=skipped.path, file=skipped.path)
        _element(case, "error", message=skipped.reason)
    if not len(root):
        suite = _element(root, "testsuite", name="dtypefix", tests="1", failures="0", errors="0")
        _element(suite, "testcase", name="no findings", classname="dtypefix")
    ElementTree.indent(root)
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    out.write(ElementTree.tostring(root, encoding="unicode") + "\n")


def _element(parent: ElementTree.Element, tag: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.SubElement(parent, tag, {name: _clean(value) for name, value in attributes.items()})


def _clean(text: str) -> str:
    """``text`` without the characters that XML cannot hold."""
    return _FORBIDDEN.sub("\ufffd", text)
