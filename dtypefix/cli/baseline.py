"""``dtypefix baseline``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dtypefix.cli._options import baseline_option, rule_options, split, target_options
from dtypefix.errors import UserError

if TYPE_CHECKING:
    from dtypefix.baseline import Entry
    from dtypefix.cli._plan import Plan
    from dtypefix.findings import Finding

CREATED = "Exit status: 0, or 2 if it could not be made."
CHECKED = "Exit status: 0, 1 if it does not fit, 2 if it could not do all that was asked."


@click.group("baseline")
def command() -> None:
    """Keep a file of known findings, so that only new ones are reported.

    A finding is known by its rule, file, symbol and code, not by its line. The file is
    dtypefix-baseline.json at the top of the checkout, or where --baseline or the setting of that name says.
    Commit it, and let it shrink. `dtypefix scan --baseline FILE` uses it, or the setting for every run.
    """


@command.command("create", epilog=CREATED)
@target_options
@rule_options
@baseline_option
def create(baseline: str | None, **options: Any) -> int:
    """Write down what is found now."""
    from dtypefix.baseline import entries_of, save
    from dtypefix.cli import _plan, _run, _scan

    plan = _plan.make(*split(options))
    file = _file(plan, baseline)
    if os.path.lexists(file):
        raise UserError(f"{_name(file)} exists; `dtypefix baseline update` brings it up to date")
    scanned = _scan.run(plan)
    counted = [finding for finding in scanned.findings if finding.counts]
    save(file, entries_of(counted, plan.target.root, file.parent))
    print(f"Wrote {_findings(len(counted))} to {_name(file)}.")
    if plan.baseline != file:
        print(f'Use it with --baseline {_name(file)}, or for every run with the setting baseline = "…".')
    _run.show_all_skipped(scanned.skipped)
    return 2 if scanned.skipped else 0


@command.command("update", epilog=CHECKED)
@target_options
@rule_options
@baseline_option
@click.option("--grow", is_flag=True, help="Take new findings in too.")
def update(baseline: str | None, grow: bool, **options: Any) -> int:
    """Drop what is not found any more; new findings are taken in only with --grow."""
    from dtypefix.baseline import load, save
    from dtypefix.cli import _plan, _run, _scan

    plan = _plan.make(*split(options))
    file = _file(plan, baseline)
    scanned = _scan.run(plan)
    match = _scan.against(file, plan, scanned.findings, scanned.paths)
    before = load(file)
    known = {entry.fingerprint for entry in before}
    added = [entry for entry in match.entries if entry.fingerprint not in known]
    dropped = set(match.stale)
    after = [entry for entry in before if entry not in dropped] + (added if grow else [])
    if set(after) != set(before):
        save(file, after)
    grown = f", {len(added)} added" if grow else ""
    print(f"{_name(file)}: {len(dropped)} dropped{grown}, {_findings(len(after))} left.")
    _run.show_all_skipped(scanned.skipped)
    refused = bool(added) and not grow
    if refused:
        _list(match.new)
        print(f"{_findings(len(added))} not in the baseline: repair them, or take them in with --grow.")
    return 2 if scanned.skipped else int(refused)


@command.command("check", epilog=CHECKED)
@target_options
@rule_options
@baseline_option
def check(baseline: str | None, **options: Any) -> int:
    """Say whether the file fits: nothing new, and nothing in it that is not found any more."""
    from dtypefix.cli import _plan, _run, _scan

    plan = _plan.make(*split(options))
    file = _file(plan, baseline)
    scanned = _scan.run(plan)
    match = _scan.against(file, plan, scanned.findings, scanned.paths)
    new = [finding for finding in match.new if finding.counts]
    _list(new)
    for entry in match.stale:
        print(f"{entry.path}: stale {entry.rule}: {_place(entry)}")
    print(f"{_name(file)}: {len(match.known)} known, {len(new)} new, {len(match.stale)} stale.")
    _run.show_all_skipped(scanned.skipped)
    return 2 if scanned.skipped else int(bool(new or match.stale))


def _file(plan: Plan, given: str | None) -> Path:
    from dtypefix.baseline import DEFAULT_NAME

    if plan.target.read_only:
        raise UserError("a baseline is for your own files, not for a release, a package or standard input")
    if given is not None:
        return Path(os.path.abspath(given))
    return plan.baseline or (plan.target.checkout or plan.target.root) / DEFAULT_NAME


def _name(file: Path) -> str:
    return os.path.relpath(file)


def _findings(number: int) -> str:
    return f"{number} finding" if number == 1 else f"{number} findings"


def _place(entry: Entry) -> str:
    return f"{entry.symbol}: {entry.code}" if entry.symbol else entry.code


def _list(findings: Sequence[Finding]) -> None:
    for finding in findings:
        if finding.counts:
            place = f"{finding.path}:{finding.span.line}:{finding.span.column}"
            print(f"{place}: new {finding.level} {finding.rule}: {finding.message}")
