"""``dtypefix rules``."""

from __future__ import annotations

import json
import sys

import click

from dtypefix.engine.catalog import DEFAULT_GROUPS, RuleInfo, load_catalog
from dtypefix.report.paint import painter


@click.command("rules", epilog="Exit status: 0, or 2 if a rule pack cannot be read.")
@click.option(
    "--format", "format_name", type=click.Choice(["text", "json"]), default="text", help="Form of the list."
)
def command(format_name: str) -> int:
    """List the rules and what each finds."""
    rules = tuple(load_catalog().by_name.values())
    if format_name == "json":
        json.dump([_data(rule) for rule in rules], sys.stdout, indent=2)
        print()
        return 0
    rows = [(rule.name, rule.group, "/".join(rule.fix), rule.summary) for rule in rules]
    heads = ("rule", "group", "fix", "finds")
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(3)]
    paint = painter(sys.stdout)
    for row in (heads, *rows):
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)]
        styles = ("bold",) * 3 if row is heads else ("cyan", "dim", "green")
        line = "  ".join(paint(cell, style) for cell, style in zip(cells, styles, strict=True))
        print(f"{line}  {paint(row[3], 'bold') if row is heads else row[3]}")
    print(
        f"\nRun without --select: the group {', '.join(DEFAULT_GROUPS)}. `dtypefix explain RULE` says more."
    )
    return 0


def _data(rule: RuleInfo) -> dict[str, object]:
    return {
        "name": rule.name,
        "group": rule.group,
        "default": rule.group in DEFAULT_GROUPS,
        "fix": list(rule.fix),
        "summary": rule.summary,
    }
