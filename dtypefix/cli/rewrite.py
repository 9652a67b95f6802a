"""``dtypefix rewrite``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dtypefix.cli._options import report_options, rule_options, show_options, split, target_options
from dtypefix.errors import UserError

EPILOG = (
    "Exit status: 1 if a warning or error remains (with --check and --diff: if a file would change), "
    "0 if not, 2 if it could not do all that was asked."
)


@click.command("rewrite", epilog=EPILOG)
@target_options
@click.option("--diff", is_flag=True, help="Print the changes for `git apply`; write nothing.")
@click.option("--check", is_flag=True, help="Only say what would change; write nothing.")
@click.option("--unsafe-fixes", is_flag=True, help="Apply the fixes that need a reader too.")
@click.option("--no-unsafe-fixes", is_flag=True, hidden=True)
@click.option("--output", metavar="DIR", help="Write a repaired copy of a release to DIR.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 if a file was changed.")
@rule_options
@report_options
@show_options
def command(
    diff: bool,
    check: bool,
    unsafe_fixes: bool,
    no_unsafe_fixes: bool,
    output: str | None,
    exit_non_zero_on_fix: bool,
    format_name: str,
    show_notes: bool,
    show_evidence: bool,
    show_files: bool,
    show_settings: bool,
    **options: Any,
) -> int:
    """Repair dtype faults in place, where the repair is safe.

    A fix is safe when it changes nothing where dtypes already agree, is right where they do not, and
    every name it reads was found. Without a PATH it works on the git checkout you stand in.
    """
    from dtypefix.api import rewrite
    from dtypefix.cli import _plan, _run
    from dtypefix.cli._progress import with_progress
    from dtypefix.cli._sink import sink_for
    from dtypefix.report import Report, View
    from dtypefix.report.formats.text import headline

    if diff and format_name != "text":
        raise UserError("--diff prints a diff, not a report; leave --format out")
    if sum((diff, check, output is not None)) > 1:
        raise UserError("choose one of --diff, --check and --output")
    where, rules = split(options)
    if show_settings:
        return _plan.show_settings(where, rules)
    plan = _plan.make(where, rules, unsafe_fixes=unsafe_fixes or (False if no_unsafe_fixes else None))
    if show_files:
        return _plan.show_files(plan)
    target, files = plan.target, plan.files
    results = []
    with sink_for(target, diff=diff, check=check, output=Path(output) if output else None) as sink:
        found = rewrite(files, plan.options, plan.roots)
        absolute = {file.path: file.absolute for file in files}
        for result in with_progress(found, len(files), "Rewriting"):
            results.append(sink.take(result, absolute[result.path]))
    changed = [result for result in results if result.changed]
    report = Report(
        mode="preview" if diff or check else "rewrite",
        root=str(target.root),
        findings=tuple(finding for result in results for finding in result.remaining),
        fixed=tuple(finding for result in changed for finding in result.fixed),
        suppressed=tuple(finding for result in results for finding in result.suppressed),
        skipped=(*target.skipped, *(result.skipped for result in results if result.skipped)),
        changed=tuple(result.path for result in changed),
        deferred=tuple(finding for result in results for finding in result.deferred),
        examined=sum(1 for result in results if not result.skipped),
    )
    if sink.shows_report:
        _run.show(report, format_name, View(show_notes, show_evidence))
    else:
        _run.show_skipped(report)
        if diff and changed:
            headline(report, sys.stderr)
    if diff or check:
        failed = bool(changed)
    else:
        failed = _run.has_counting(report.findings) or (exit_non_zero_on_fix and bool(changed))
    return _run.exit_status(report, failed=failed)
