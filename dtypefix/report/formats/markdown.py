"""Markdown for a pull request's comment or a job's summary: counts, then each finding to unfold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TextIO

from dtypefix.findings import Finding
from dtypefix.report.change import changed_lines
from dtypefix.report.model import Report, View
from dtypefix.report.twins import Group, grouped, short_places
from dtypefix.report.words import KINDS, fix_label, kind_of, one_line, plural, printable, repair_of

MARKS = {"error": "🔴", "warning": "🟠", "note": "🔵"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~#&])")


def render(report: Report, view: View, out: TextIO) -> None:
    """Write a table of the rules and the findings below it."""
    shown = view.shown(report)
    out.write("## dtypefix\n\n")
    if not shown:
        out.write(f"No findings in {plural(report.examined, 'file')}.\n")
    else:
        files = plural(len({finding.path for finding in shown}), "file")
        out.write(f"{plural(len(shown), 'finding')} in {files} of {report.examined:,} examined.\n\n")
        out.writelines(f"{line}\n" for line in _table(shown))
        for group in grouped(shown):
            out.writelines(f"{line}\n" for line in _entry(report, group))
    if report.skipped:
        out.write("\n### Not examined\n\n")
        for skipped in report.skipped:
            out.write(f"- {_code(skipped.path)}: {_text(skipped.reason)}\n")


def _table(shown: list[Finding]) -> Iterator[str]:
    yield f"| rule | findings | {' | '.join(KINDS)} |"
    yield f"|---|--:|{'--:|' * len(KINDS)}"
    for rule, number in sorted(Counter(f.rule for f in shown).items(), key=lambda item: (-item[1], item[0])):
        kinds = Counter(kind_of(finding) for finding in shown if finding.rule == rule)
        yield f"| {_code(rule)} | {number} | {' | '.join(str(kinds[kind] or '') for kind in KINDS)} |"


def _entry(report: Report, group: Group) -> Iterator[str]:
    finding = group.first
    where = f"{one_line(finding.path)}:{finding.span.line}"
    yield ""
    yield f"<details><summary>{MARKS[finding.level]} <b>{finding.rule}</b> <code>{_html(where)}</code>"
    yield f"{_html(one_line(finding.message))} {fix_label(finding)}</summary>"
    yield ""
    if group.twins:
        yield f"Likewise in {', '.join(_code(place) for place in short_places(group))}."
        yield ""
    for step in finding.evidence:
        yield f"- {_code(f'{step.path}:{step.line}')}: {_text(step.text)}"
    yield f"- Fix: {_text(repair_of(finding))}"
    source = report.source(finding.path)
    if finding.fix is not None and source is not None:
        yield ""
        yield "```diff"
        for line in changed_lines(source, finding.fix):
            yield printable(f"{line.sign}{line.text.expandtabs(4)}".rstrip()).replace("```", "` ` `")
        yield "```"
    yield ""
    yield "</details>"


def _text(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text))


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: str) -> str:
    flat = one_line(text)
    return f"`` {flat} ``" if "`" in flat else f"`{flat}`"
