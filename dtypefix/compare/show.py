"""A comparison as text, JSON or Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TextIO

from dtypefix import __version__
from dtypefix.compare.match import Comparison
from dtypefix.findings import Finding
from dtypefix.report.formats.json import finding_data
from dtypefix.report.formats.text import write_entries
from dtypefix.report.model import View
from dtypefix.report.paint import painter
from dtypefix.report.words import one_line, place_of, plural, printable

HEADS = ("new", "fixed", "remaining")


def as_text(comparison: Comparison, view: View, out: TextIO) -> None:
    """Write the new and the fixed findings, and the counts by rule."""
    paint = painter(out)
    seen = _seen(comparison, view)
    for name, findings in (("New", seen.new), ("Fixed", seen.fixed)):
        if findings:
            out.write(f"{paint(name, 'bold red' if name == 'New' else 'bold green')}\n")
            write_entries(findings, view, out)
            out.write("" if out.isatty() else "\n")
    out.write(f"{paint(f'{one_line(seen.before)} → {one_line(seen.after)}', 'bold')}\n")
    if not seen.by_rule:
        out.write("  no findings in either\n")
    else:
        width = max(map(len, seen.by_rule))
        out.write(f"  {'':{width}}  {'  '.join(f'{head:>9}' for head in HEADS)}\n")
        for rule, counts in seen.by_rule.items():
            out.write(f"  {rule:{width}}  {'  '.join(f'{count or chr(183):>9}' for count in counts)}\n")
        if len(seen.by_rule) > 1:
            totals = (len(seen.new), len(seen.fixed), len(seen.remaining))
            out.write(f"  {'all':{width}}  {'  '.join(f'{count:>9}' for count in totals)}\n")
    if seen.skipped:
        out.write(f"{plural(len(seen.skipped), 'file')} skipped.\n")


def as_json(comparison: Comparison, view: View, out: TextIO) -> None:
    """Write one document, schema 1; notes are listed whatever the view says."""
    document = {
        "schema": 1,
        "version": __version__,
        "before": comparison.before,
        "after": comparison.after,
        "new": [finding_data(finding) for finding in comparison.new],
        "fixed": [finding_data(finding) for finding in comparison.fixed],
        "remaining": [finding_data(finding) for finding in comparison.remaining],
        "skipped": [asdict(skipped) for skipped in comparison.skipped],
        "summary": {rule: dict(zip(HEADS, n, strict=True)) for rule, n in comparison.by_rule.items()},
    }
    json.dump(document, out, indent=2)
    out.write("\n")


def as_markdown(comparison: Comparison, view: View, out: TextIO) -> None:
    """Write a comment for a pull request: a table by rule, then what is new and what is fixed."""
    seen = _seen(comparison, view)
    out.write(f"## dtypefix: `{one_line(seen.before)}` → `{one_line(seen.after)}`\n\n")
    if not seen.by_rule:
        out.write("No findings in either.\n")
        return
    out.write(f"| rule | {' | '.join(HEADS)} |\n|---|--:|--:|--:|\n")
    for rule, counts in seen.by_rule.items():
        out.write(f"| `{rule}` | {' | '.join(str(count) for count in counts)} |\n")
    for name, findings in (("New", seen.new), ("Fixed", seen.fixed)):
        if findings:
            out.write(f"\n### {name}\n\n")
            for finding in findings:
                message = printable(one_line(finding.message)).replace("<", "&lt;")
                out.write(f"- `{place_of(finding)}` {finding.level} `{finding.rule}`: {message}\n")


def _seen(comparison: Comparison, view: View) -> Comparison:
    """A comparison without its notes, unless they are to be shown."""

    def kept(findings: Sequence[Finding]) -> tuple[Finding, ...]:
        return tuple(finding for finding in findings if finding.counts or view.show_notes)

    return Comparison(
        comparison.before,
        comparison.after,
        kept(comparison.new),
        kept(comparison.fixed),
        kept(comparison.remaining),
        comparison.skipped,
    )
