"""``dtypefix scan``."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import Any

import click

from dtypefix.cli._options import (
    EXIT_CODES,
    change_options,
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


@click.command("scan", epilog=f"Exit status: {EXIT_CODES}")
@target_options
@change_options
@rule_options
@execution_options
@known_options
@click.option("--no-ignores", is_flag=True, help="Report what comments silence too.")
@report_options
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even where there are findings.")
@show_options
def command(
    diff_base: str | None,
    staged: bool,
    baseline: str | None,
    no_baseline: bool,
    no_ignores: bool,
    format_name: str,
    output_files: tuple[str, ...],
    show_notes: bool,
    show_evidence: bool,
    jobs: int | None,
    no_cache: bool,
    cache_dir: str | None,
    profile: bool,
    statistics: bool,
    exit_zero: bool,
    show_files: bool,
    show_settings: bool,
    **options: Any,
) -> int:
    """Report dtype faults and change nothing.

    Without a PATH it reads the git checkout you stand in. NAME==VERSION is a source release (vllm, sglang
    or vllm-ascend), fetched once and cached.
    """
    from dtypefix.cli import _plan, _run, _scan
    from dtypefix.report import Report, View
    from dtypefix.report.outputs import parse_output

    if staged and diff_base is not None:
        raise UserError("choose one of --diff-base and --staged")
    outputs = [parse_output(text) for text in output_files]
    where, rules = split(options)
    how = execution(jobs, no_cache, cache_dir, profile)
    if show_settings:
        return _plan.show_settings(where, rules)
    plan = _plan.make(where, rules, staged=staged)
    plan = replace(plan, execution=how, options=replace(plan.options, obey_ignores=not no_ignores))
    if show_files:
        return _plan.show_files(plan)
    changes = _scan.changes(plan, diff_base)
    file = _scan.baseline_file(plan, baseline, no_baseline)
    scanned = _scan.run(plan)
    if how.profile is not None:
        print(how.profile.table(), file=sys.stderr)
    match = None if file is None else _scan.against(file, plan, scanned.findings, scanned.paths)
    reported = scanned if match is None else scanned.with_findings(match.new)
    if changes is not None:
        reported = _scan.within(reported, changes, plan)
    report = Report(
        mode="scan",
        root=str(plan.target.root),
        findings=reported.findings,
        suppressed=reported.suppressed,
        baselined=() if match is None or changes is not None else match.known,
        skipped=scanned.skipped,
        examined=len(scanned.paths),
        sources={file.path: file.source for file in plan.files if file.source is not None},
        rule_docs=partial(_run.rule_docs, plan.options),
    )
    view = View(show_notes, show_evidence)
    _run.show(report, format_name, view, outputs, statistics=statistics)
    if file is not None and match is not None:
        _scan.say_stale(file, match, format_name)
    return _run.exit_status(report, failed=not exit_zero and _run.has_counting(report.findings))
