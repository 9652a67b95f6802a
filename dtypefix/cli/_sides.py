"""Reading one side of a comparison as ``scan`` would read it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dtypefix.api import Roots, scan
from dtypefix.cli import _plan
from dtypefix.cli._options import RuleOptions, TargetOptions
from dtypefix.cli._progress import with_progress
from dtypefix.findings import Finding, Skipped
from dtypefix.sources.target import display_path


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, suppressed findings left out, and what could not be read."""

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    examined: int


def found_in(
    argument: str, rules: RuleOptions, *, root: Path | None = None, vllm_root: str | None = None, label: str
) -> Found:
    """The findings in a path or a release, their paths relative to ``root`` if it is given.

    Raises:
        UserError: an option cannot be used, or nothing can be read.
    """
    where = TargetOptions((argument,), False, None, None, vllm_root)
    plan = _plan.make(where, rules)
    files, roots = plan.files, plan.roots
    if root is not None:
        files = [replace(file, path=display_path(file.absolute, root)) for file in files]
        roots = Roots(roots.search, root)
    results = list(with_progress(scan(files, plan.options, roots), len(files), label))
    skipped = (*plan.target.skipped, *(result.skipped for result in results if result.skipped))
    return Found(
        findings=tuple(finding for result in results for finding in result.findings),
        skipped=skipped,
        examined=len(results) - len(skipped),
    )
