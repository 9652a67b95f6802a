"""What a run found and did, as every report format sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from dtypefix.findings import Finding, Skipped
from dtypefix.report.source import SourceText

Mode = Literal["scan", "rewrite", "preview"]


@dataclass(frozen=True)
class RuleDoc:
    """What formats that explain their findings need of a rule; ``page`` is Markdown."""

    name: str
    group: str
    summary: str
    page: str


@dataclass(frozen=True)
class Report:
    """The outcome of one run.

    ``root`` is what paths are relative to, ``findings`` are those that remain, notes included, and
    ``examined`` is the number of files read. ``changed`` names the files that were rewritten, or that
    would be in the mode ``preview``; ``deferred`` are findings whose fixes have to wait for another run.
    ``sources`` holds the text of files that is not, or not in this version, on disk; ``rule_docs`` reads
    the pages of the rules that ran, when a format asks for them.
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
    sources: Mapping[str, bytes] = field(default_factory=dict)
    rule_docs: Callable[[], tuple[RuleDoc, ...]] = tuple

    @cached_property
    def rules(self) -> tuple[RuleDoc, ...]:
        """The pages of the rules that ran."""
        return self.rule_docs()

    def source(self, path: str) -> SourceText | None:
        """The text of a file that findings point into, or None where it cannot be read."""
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    @cached_property
    def _texts(self) -> dict[str, SourceText | None]:
        return {}

    def _read(self, path: str) -> SourceText | None:
        if path in self.sources:
            return SourceText(self.sources[path])
        try:
            return SourceText(Path(self.root, path).read_bytes())
        except (OSError, ValueError):
            return None

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

    def shown(self, report: Report) -> list[Finding]:
        """The findings that formats for people list: notes only if they are asked for."""
        return [finding for finding in report.findings if finding.counts or self.show_notes]
