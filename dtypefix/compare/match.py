"""Which findings of one version are those of another."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dtypefix.findings import Finding, Skipped


@dataclass(frozen=True)
class Comparison:
    """Two versions and what became of the findings in between.

    ``remaining`` are the findings as they stand in the later version. ``skipped`` names the files that
    could not be read in either, so that their findings are unknown.
    """

    before: str
    after: str
    new: tuple[Finding, ...]
    fixed: tuple[Finding, ...]
    remaining: tuple[Finding, ...]
    skipped: tuple[Skipped, ...] = ()

    @cached_property
    def by_rule(self) -> dict[str, tuple[int, int, int]]:
        """New, fixed and remaining findings of each rule that has any."""
        counts = [Counter(f.rule for f in part) for part in (self.new, self.fixed, self.remaining)]
        rules = sorted(set().union(*counts))
        return {rule: (counts[0][rule], counts[1][rule], counts[2][rule]) for rule in rules}


def compared(
    before: tuple[str, Sequence[Finding]],
    after: tuple[str, Sequence[Finding]],
    skipped: Iterable[Skipped] = (),
) -> Comparison:
    """Compare two versions, each given by what it is called and its findings.

    A finding remains if its fingerprint does, wherever its lines went; or else if the same code of the same
    class and method is at fault in a file of the same name elsewhere, as when a folder was moved.
    """
    old = list(before[1])
    fingerprints = {finding.fingerprint for finding in old}
    kept = {finding.fingerprint for finding in after[1]} & fingerprints
    gone: defaultdict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for finding in old:
        if finding.fingerprint not in kept:
            gone[_key(finding)].append(finding)
    new: list[Finding] = []
    remaining: list[Finding] = []
    for finding in after[1]:
        if finding.fingerprint in kept:
            remaining.append(finding)
        elif gone[_key(finding)]:
            gone[_key(finding)].pop(0)
            remaining.append(finding)
        else:
            new.append(finding)
    left = {id(finding) for findings in gone.values() for finding in findings}
    fixed = tuple(finding for finding in old if id(finding) in left)
    return Comparison(before[0], after[0], tuple(new), fixed, tuple(remaining), tuple(skipped))


def _key(finding: Finding) -> tuple[str, ...]:
    """What a finding keeps when its file moves to another folder."""
    return finding.rule, finding.path.rpartition("/")[2], finding.symbol, finding.code
