"""``dtypefix rewrite``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dtypefix.cli._options import (
    execution,
    execution_options,
    known_options,
    report_options,
    rule_options,
    show_options,
    split,
    target_options,
)
from dtypefix.errors import UserError

if TYPE_CHECKING:
    from dtypefix.cli._ask import Interview
    from dtypefix.cli._plan import Plan
    from dtypefix.cli._sink import Outcome, Sink
    from dtypefix.edits.fix_file import FixedFile
    from dtypefix.findings import Finding

EPILOG = (
    "Exit status: 1 if a warning or error remains (--check, --diff, --patch: if a file would change), "
    "0 if not, 2 if it could not do all that was asked."
)


@click.command("rewrite", epilog=EPILOG)
@target_options
@click.option("--diff", is_flag=True, help="Print the changes for `git apply`; write nothing.")
@click.option("--patch", metavar="FILE", help="Write the changes only, for `git apply`.")
@click.option("--check", is_flag=True, help="Only say what would change; write nothing.")
@click.option("--interactive", is_flag=True, help="Show each fix and ask.")
@click.option("--unsafe-fixes", is_flag=True, help="Apply the fixes that need a reader too.")
@click.option("--no-unsafe-fixes", is_flag=True, hidden=True)
@click.option("--add-ignores", is_flag=True, help="Comment what is found, repair nothing.")
@click.option("--reason", metavar="TEXT", help="What the comments of --add-ignores say.")
@click.option("--output", metavar="DIR", help="Write a repaired copy of a release to DIR.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 if a file was changed.")
@rule_options
@execution_options
@known_options
@report_options
@show_options
def command(
    diff: bool,
    patch: str | None,
    check: bool,
    interactive: bool,
    unsafe_fixes: bool,
    no_unsafe_fixes: bool,
    add_ignores: bool,
    reason: str | None,
    output: str | None,
    exit_non_zero_on_fix: bool,
    baseline: str | None,
    no_baseline: bool,
    format_name: str,
    output_files: tuple[str, ...],
    show_notes: bool,
    show_evidence: bool,
    jobs: int | None,
    no_cache: bool,
    cache_dir: str | None,
    profile: bool,
    statistics: bool,
    show_files: bool,
    show_settings: bool,
    **options: Any,
) -> int:
    """Repair dtype faults in place, where the repair is safe.

    A fix is safe when it changes nothing where dtypes already agree, is right where they do not, and
    every name it reads was found. Without a PATH it works on the git checkout you stand in.
    """
    from dtypefix.cli import _plan, _run, _scan
    from dtypefix.cli._sink import sink_for
    from dtypefix.report import Report, View
    from dtypefix.report.outputs import parse_output, write_outputs
    from dtypefix.report.summary import headline

    if diff and format_name != "text":
        raise UserError("--diff prints a diff, not a report; leave --format out")
    if sum((diff, check, patch is not None, output is not None)) > 1:
        raise UserError("choose one of --diff, --patch, --check and --output")
    if add_ignores != (reason is not None):
        raise UserError("--add-ignores and --reason go together: say why the findings may stay")
    if interactive and (add_ignores or options["stdin_filename"]):
        raise UserError("--interactive goes with neither --add-ignores nor --stdin-filename")
    outputs = [parse_output(text) for text in output_files]
    where, rules = split(options)
    how = execution(jobs, no_cache, cache_dir, profile)
    if show_settings:
        return _plan.show_settings(where, rules)
    plan = _plan.make(where, rules, unsafe_fixes=unsafe_fixes or (False if no_unsafe_fixes else None))
    plan = replace(plan, execution=how)
    if show_files:
        return _plan.show_files(plan)
    known = _scan.baseline_file(plan, baseline, no_baseline)
    patch_file = Path(patch) if patch is not None else None
    to = Path(output) if output is not None else None
    with sink_for(plan.target, diff=diff, check=check, patch=patch_file, output=to) as sink:
        if reason is not None:
            results = _take(_silenced(plan, reason, known), plan, sink, None)
        else:
            results = _fixed(plan, sink, interactive)
    changed = [result for result in results if result.changed]
    if how.profile is not None:
        print(how.profile.table(), file=sys.stderr)
    remaining = tuple(finding for result in results for finding in result.remaining)
    match = None if known is None else _scan.against(known, plan, remaining, ())
    writes_nothing = diff or check or patch is not None
    report = Report(
        mode="preview" if writes_nothing else "rewrite",
        root=str(plan.target.root),
        findings=remaining if match is None else match.new,
        fixed=tuple(finding for result in changed for finding in result.fixed),
        suppressed=tuple(finding for result in results for finding in result.suppressed),
        baselined=() if match is None else match.known,
        skipped=(*plan.target.skipped, *(result.skipped for result in results if result.skipped)),
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
        if report.fixed:
            headline(report, sys.stderr)
    if writes_nothing:
        failed = bool(changed)
    else:
        failed = _run.has_counting(report.findings) or (exit_non_zero_on_fix and bool(changed))
    return _run.exit_status(report, failed=failed)


def _fixed(plan: Plan, sink: Sink, interactive: bool) -> list[Outcome]:
    from dtypefix.api import rewrite

    if not interactive:
        return _take(rewrite(plan.files, plan.options, plan.roots, None, plan.execution), plan, sink, None)
    from dtypefix.cli._ask import on_terminal

    interview = on_terminal()
    found = rewrite(plan.files, plan.options, plan.roots, interview.accept, plan.execution)
    return _take(found, plan, sink, interview)


def _silenced(plan: Plan, reason: str, known: Path | None) -> Iterator[FixedFile]:
    from dtypefix.api import silence

    if known is None:
        return silence(plan.files, plan.options, plan.roots, reason)
    from dtypefix.cli import _scan

    def new(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        return _scan.against(known, plan, findings, ()).new

    return silence(plan.files, plan.options, plan.roots, reason, new)


def _take(found: Iterator[FixedFile], plan: Plan, sink: Sink, interview: Interview | None) -> list[Outcome]:
    """Let the sink deal with each file, up to the one at which the person has had enough."""
    from dtypefix.cli._progress import with_progress

    absolute = {file.path: file.absolute for file in plan.files}
    shown = found if interview is not None else with_progress(found, len(plan.files), "Rewriting")
    results = []
    for result in shown:
        results.append(sink.take(result, absolute[result.path]))
        if interview is not None and interview.ended:
            break
    return results
