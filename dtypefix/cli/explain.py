"""``dtypefix explain``."""

from __future__ import annotations

import sys

import click

from dtypefix.cli._options import pack_options, rule_argument
from dtypefix.report.paint import wants_colour


@click.command("explain", epilog="Exit status: 0, or 2 if there is no such rule.")
@rule_argument
@pack_options
def command(rule: str, config: tuple[str, ...], isolated: bool) -> int:
    """Print the page of a rule.

    It says what the rule finds, why that is wrong, what to write instead and how far its fix can be trusted.
    """
    from dtypefix.cli import _plan

    page = _plan.catalog(config, isolated=isolated).get(rule).page
    if not wants_colour(sys.stdout):
        print(page.rstrip("\n"))
        return 0
    from rich.console import Console
    from rich.markdown import Markdown

    Console(file=sys.stdout, force_terminal=True).print(Markdown(page))
    return 0
