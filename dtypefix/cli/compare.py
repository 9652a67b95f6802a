"""``dtypefix compare``."""

from __future__ import annotations

import sys
from typing import Any

import click

from dtypefix.cli._options import RuleOptions, rule_options

EPILOG = (
    "Exit status: 0 nothing new, 1 new findings above note, 2 could not do all that was asked. "
    "Each side is read with the settings that `scan` would use there; --isolated or --config makes them one."
)


@click.command("compare", epilog=EPILOG)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    help="Form of the comparison.",
)
@click.option("--show-notes", is_flag=True, help="Compare notes too (text, markdown).")
@click.option("--show-evidence", is_flag=True, help="Show why, and what the fix is (text).")
@click.option("--vllm-root", metavar="PATH|vllm==X", help="Where a plug-in's base classes come from.")
@rule_options
def command(
    before: str,
    after: str,
    format_name: str,
    show_notes: bool,
    show_evidence: bool,
    vllm_root: str | None,
    **options: Any,
) -> int:
    """Say which findings are new in B, fixed since A, and remaining.

    A and B are each a release (vllm==0.33.0), a file or folder, or a revision of the git checkout you stand
    in. A finding that only moved, within its file or with it, remains.
    """
    from dtypefix.cli import _run
    from dtypefix.cli._sides import found_in
    from dtypefix.compare import show
    from dtypefix.compare.match import compared
    from dtypefix.compare.sides import side
    from dtypefix.report import View

    here = _run.working_directory()
    rules = RuleOptions(**options)
    found = []
    for argument in (before, after):
        with side(argument, here) as what:
            found.append(
                found_in(what.argument, rules, root=what.root, vllm_root=vllm_root, label=what.label)
            )
    old, new = found
    comparison = compared((before, old.findings), (after, new.findings), (*old.skipped, *new.skipped))
    write = {"text": show.as_text, "json": show.as_json, "markdown": show.as_markdown}[format_name]
    write(comparison, View(show_notes, show_evidence), sys.stdout)
    sys.stdout.flush()
    for skipped in comparison.skipped:
        print(f"dtypefix: {skipped.path}: {skipped.reason}", file=sys.stderr)
    if comparison.skipped:
        return 2
    return 1 if _run.has_counting(comparison.new) else 0
