"""Scanning as the commands do it: with the configuration, the baseline and the changes that count."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dtypefix.api import scan
from dtypefix.cli import _run
from dtypefix.cli._plan import Plan
from dtypefix.cli._progress import with_progress
from dtypefix.errors import UserError
from dtypefix.findings import Finding, Skipped

if TYPE_CHECKING:
    from dtypefix.baseline import Match
    from dtypefix.sources.changes import Changes


@dataclass(frozen=True)
class Scanned:
    """What a scan came to; ``findings`` are those that are reported."""

    findings: tuple[Finding, ...]
    suppressed: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    paths: tuple[str, ...]

    def with_findings(self, findings: tuple[Finding, ...]) -> Scanned:
        """The same, but for what is reported."""
        return replace(self, findings=findings)


def changes(plan: Plan, diff_base: str | None) -> Changes | None:
    """The changes that findings have to concern, or None where all count.

    Raises:
        UserError: ``diff_base`` is not known to git, or there is no checkout to ask it of.
    """
    from dtypefix.sources.changes import checkout_of, since

    if plan.staged is not None:
        return plan.staged.changes()
    if diff_base is None:
        return None
    if plan.target.kind in ("release", "installed"):
        raise UserError("--diff-base compares the files of a checkout; leave the other sources out")
    return since(checkout_of(plan.target.checkout or plan.target.root, "--diff-base"), diff_base)


def baseline_file(plan: Plan, given: str | None, turned_off: bool) -> Path | None:
    """The file of known findings to use, if any: the one given, or that of the configuration.

    Raises:
        UserError: one is given and turned off.
    """
    if given is not None:
        if turned_off:
            raise UserError("choose one of --baseline and --no-baseline")
        return Path(os.path.abspath(given))
    return None if turned_off else plan.baseline


def run(plan: Plan) -> Scanned:
    """Examine the files of a plan, with a progress bar."""
    found = scan(plan.files, plan.options, plan.roots, plan.execution)
    results = list(with_progress(found, len(plan.files), "Scanning"))
    return Scanned(
        findings=tuple(finding for result in results for finding in result.findings),
        suppressed=tuple(finding for result in results for finding in result.suppressed),
        skipped=(*plan.target.skipped, *(result.skipped for result in results if result.skipped)),
        paths=tuple(result.path for result in results if not result.skipped),
    )


def within(scanned: Scanned, changes: Changes, plan: Plan) -> Scanned:
    """Of a scan only what lies in changes, or whose evidence does."""
    absolute = {file.path: file.absolute for file in plan.files}

    def those(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        root = plan.target.root
        return tuple(f for f in findings if changes.concern(f, absolute[f.path], root))

    return Scanned(those(scanned.findings), those(scanned.suppressed), scanned.skipped, scanned.paths)


def against(file: Path, plan: Plan, findings: tuple[Finding, ...], paths: tuple[str, ...]) -> Match:
    """Hold the findings of the files ``paths`` against the baseline ``file``.

    Raises:
        UserError: the baseline cannot be read.
    """
    from dtypefix.baseline import load, match

    return match(
        load(file),
        findings,
        root=plan.target.root,
        base=file.parent,
        examined=paths,
        rules=plan.options.select,
    )


def say_stale(file: Path, match: Match, format_name: str) -> None:
    """Say on standard error, beside a report for people, that a baseline can shrink."""
    if match.stale and format_name in _run.FOR_PEOPLE:
        sys.stdout.flush()
        number = len(match.stale)
        entries = "1 entry is" if number == 1 else f"{number} entries are"
        print(
            f"dtypefix: {os.path.relpath(file)}: {entries} stale; `dtypefix baseline update` drops them",
            file=sys.stderr,
        )
