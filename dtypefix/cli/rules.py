"""``dtypefix rules``."""

from __future__ import annotations

import json
import sys

import click

from dtypefix.cli._options import pack_options
from dtypefix.engine.catalog import DEFAULT_GROUPS, RuleInfo
from dtypefix.report.layout import width_of, wrapped
from dtypefix.report.paint import painter


@click.command("rules", epilog="Exit status: 0, or 2 if a rule pack cannot be read.")
@click.option(
    "--format", "format_name", type=click.Choice(["text", "json"]), default="text", help="Form of the list."
)
@pack_options
def command(format_name: str, config: tuple[str, ...], isolated: bool) -> int:
    """List the rules and what each finds."""
    from dtypefix.cli import _plan

    rules = tuple(_plan.catalog(config, isolated=isolated).by_name.values())
    if format_name == "json":
        json.dump([_data(rule) for rule in rules], sys.stdout, indent=2)
        print()
        return 0
    rows = [(rule.name, ", ".join(rule.groups), "/".join(rule.fix), rule.summary) for rule in rules]
    heads = ("rule", "group", "fix", "finds")
    indent = 4
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(3)]
    paint = painter(sys.stdout)
    for row in (heads, *rows):
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)]
        styles = ("bold",) * 3 if row is heads else ("cyan", "dim", "green")
        line = "  ".join(paint(cell, style) for cell, style in zip(cells, styles, strict=True))
        whole = f"{line}  {paint(row[3], 'bold') if row is heads else row[3]}"
        print(*wrapped(whole, width_of(sys.stdout), " " * indent), sep="\n")
    groups = ", ".join(DEFAULT_GROUPS)
    closing = f"Run without --select: the group {groups}. `dtypefix explain RULE` says more."
    print("", *wrapped(closing, width_of(sys.stdout)), sep="\n")
    return 0


def _data(rule: RuleInfo) -> dict[str, object]:
    return {
        "name": rule.name,
        "group": rule.group,
        "default": rule.group in DEFAULT_GROUPS and not rule.preview,
        "fix": list(rule.fix),
        "summary": rule.summary,
    }
