"""``dtypefix scan``."""

from __future__ import annotations

from typing import Any

import click

from dtypefix.cli._options import (
    EXIT_CODES,
    report_options,
    rule_options,
    show_options,
    split,
    target_options,
)


@click.command("scan", epilog=f"Exit status: {EXIT_CODES}")
@target_options
@rule_options
@report_options
@show_options
def command(
    format_name: str,
    show_notes: bool,
    show_evidence: bool,
    show_files: bool,
    show_settings: bool,
    **options: Any,
) -> int:
    """Report dtype faults and change nothing.

    Without a PATH it reads the git checkout you stand in. NAME==VERSION is a source release (vllm, sglang
    or vllm-ascend), fetched once and cached.
    """
    from dtypefix.api import scan
    from dtypefix.cli import _plan, _run
    from dtypefix.cli._progress import with_progress
    from dtypefix.report import Report, View

    where, rules = split(options)
    if show_settings:
        return _plan.show_settings(where, rules)
    plan = _plan.make(where, rules)
    if show_files:
        return _plan.show_files(plan)
    target = plan.target
    found = scan(plan.files, plan.options, plan.roots)
    results = list(with_progress(found, len(plan.files), "Scanning"))
    report = Report(
        mode="scan",
        root=str(target.root),
        findings=tuple(finding for result in results for finding in result.findings),
        suppressed=tuple(finding for result in results for finding in result.suppressed),
        skipped=(*target.skipped, *(result.skipped for result in results if result.skipped)),
        examined=sum(1 for result in results if not result.skipped),
    )
    _run.show(report, format_name, View(show_notes, show_evidence))
    return _run.exit_status(report, failed=_run.has_counting(report.findings))
