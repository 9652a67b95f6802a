"""How many findings each rule has, most first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TextIO

from dtypefix.findings import Finding
from dtypefix.report.paint import painter
from dtypefix.report.words import KINDS, kind_of


@dataclass(frozen=True)
class Row:
    """The findings of one rule: how many, in how many files, and how they can be repaired."""

    rule: str
    count: int
    files: int
    safe: int
    unsafe: int
    manual: int


def rows(findings: Iterable[Finding]) -> list[Row]:
    """One row for each rule, the one with most findings first."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    made = [_row(rule, found) for rule, found in by_rule.items()]
    return sorted(made, key=lambda row: (-row.count, row.rule))


def _row(rule: str, findings: list[Finding]) -> Row:
    kinds = [kind_of(finding) for finding in findings]
    files = len({finding.path for finding in findings})
    return Row(rule, len(findings), files, *(kinds.count(kind) for kind in KINDS))


def write_table(findings: Iterable[Finding], out: TextIO) -> None:
    """Write the rows for people, one a line; nothing where nothing was found."""
    table = rows(findings)
    paint = painter(out)
    digits = max((len(str(row.count)) for row in table), default=0)
    width = max((len(row.rule) for row in table), default=0)
    for row in table:
        kinds = ", ".join(f"{getattr(row, kind)} {kind}" for kind in KINDS if getattr(row, kind))
        rule = paint(f"{row.rule:{width}}", "cyan")
        files = "1 file" if row.files == 1 else f"{row.files} files"
        out.write(f"{paint(f'{row.count:{digits}}', 'bold')}  {rule}  {files} ({kinds})\n")


def write_json(findings: Iterable[Finding], out: TextIO) -> None:
    """Write the rows as one JSON list."""
    json.dump([asdict(row) for row in rows(findings)], out, indent=2)
    out.write("\n")
