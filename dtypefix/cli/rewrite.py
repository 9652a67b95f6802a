"""``dtypefix rewrite``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from dtypefix.cli._options import (
    known_options,
    report_options,
    rule_options,
    show_options,
    split,
    target_options,
)
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
@known_options
@report_options
@show_options
def command(
    diff: bool,
    check: bool,
    unsafe_fixes: bool,
    no_unsafe_fixes: bool,
    output: str | None,
    exit_non_zero_on_fix: bool,
    baseline: str | None,
    no_baseline: bool,
    format_name: str,
    output_files: tuple[str, ...],
    show_notes: bool,
    show_evidence: bool,
    statistics: bool,
    show_files: bool,
    show_settings: bool,
    **options: Any,
) -> int:
    """Repair dtype faults in place, where the repair is safe.

    A fix is safe when it changes nothing where dtypes already agree, is right where they do not, and
    every name it reads was found. Without a PATH it works on the git checkout you stand in.
    """
    from dtypefix.api import rewrite
    from dtypefix.cli import _plan, _run, _scan
    from dtypefix.cli._progress import with_progress
    from dtypefix.cli._sink import sink_for
    from dtypefix.report import Report, View
    from dtypefix.report.outputs import parse_output, write_outputs
    from dtypefix.report.summary import headline

    if diff and format_name != "text":
        raise UserError("--diff prints a diff, not a report; leave --format out")
    if sum((diff, check, output is not None)) > 1:
        raise UserError("choose one of --diff, --check and --output")
    outputs = [parse_output(text) for text in output_files]
    where, rules = split(options)
    if show_settings:
        return _plan.show_settings(where, rules)
    plan = _plan.make(where, rules, unsafe_fixes=unsafe_fixes or (False if no_unsafe_fixes else None))
    if show_files:
        return _plan.show_files(plan)
    target, files = plan.target, plan.files
    known = _scan.baseline_file(plan, baseline, no_baseline)
    results = []
    with sink_for(target, diff=diff, check=check, output=Path(output) if output else None) as sink:
        found = rewrite(files, plan.options, plan.roots)
        absolute = {file.path: file.absolute for file in files}
        for result in with_progress(found, len(files), "Rewriting"):
            results.append(sink.take(result, absolute[result.path]))
    changed = [result for result in results if result.changed]
    remaining = tuple(finding for result in results for finding in result.remaining)
    match = None if known is None else _scan.against(known, plan, remaining, ())
    report = Report(
        mode="preview" if diff or check else "rewrite",
        root=str(target.root),
        findings=remaining if match is None else match.new,
        fixed=tuple(finding for result in changed for finding in result.fixed),
        suppressed=tuple(finding for result in results for finding in result.suppressed),
        baselined=() if match is None else match.known,
        skipped=(*target.skipped, *(result.skipped for result in results if result.skipped)),
        changed=tuple(result.path for result in changed),
        deferred=tuple(finding for result in results for finding in result.deferred),
        examined=sum(1 for result in results if not result.skipped),
        sources={result.path: result.text for result in results if result.text is not None},
        rule_docs=partial(_run.rule_docs, plan.options),
    )
    view = View(show_notes, show_evidence)
    if sink.shows_report:
        _run.show(report, format_name, view, outputs, statistics=statistics)
    else:
        write_outputs(outputs, report, view)
        _run.show_skipped(report)
        if diff and changed:
            headline(report, sys.stderr)
    if diff or check:
        failed = bool(changed)
    else:
        failed = _run.has_counting(report.findings) or (exit_non_zero_on_fix and bool(changed))
    return _run.exit_status(report, failed=failed)
