"""What a run found and did, as every report format sees it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from dtypefix.findings import Finding, Skipped

Mode = Literal["scan", "rewrite", "preview"]


@dataclass(frozen=True)
class Report:
    """The outcome of one run.

    ``root`` is what paths are relative to, ``findings`` are those that remain, notes included, and
    ``examined`` is the number of files read. ``changed`` names the files that were rewritten, or that
    would be in the mode ``preview``; ``deferred`` are findings whose fixes have to wait for another run.
    """

    mode: Mode
    root: str
    findings: tuple[Finding, ...] = ()
    fixed: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    baselined: tuple[Finding, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    changed: tuple[str, ...] = ()
    deferred: tuple[Finding, ...] = ()
    examined: int = 0

    @cached_property
    def summary(self) -> dict[str, int | dict[str, int]]:
        """The counts: found is the sum of fixed, unfixed, suppressed and baselined, also per rule."""
        everything = (*self.findings, *self.fixed, *self.suppressed, *self.baselined)
        return {
            "found": len(everything),
            "fixed": len(self.fixed),
            "unfixed": len(self.findings),
            "suppressed": len(self.suppressed),
            "baselined": len(self.baselined),
            "by_rule": dict(sorted(Counter(finding.rule for finding in everything).items())),
        }


@dataclass(frozen=True)
class View:
    """What a person asked to see of a report."""

    show_notes: bool = False
    show_evidence: bool = False
