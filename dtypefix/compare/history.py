"""Findings by rule over the releases of a project."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from dtypefix.errors import UserError


@dataclass(frozen=True)
class History:
    """How many findings each rule has in each release; ``counts[rule]`` is in the order of ``versions``."""

    project: str
    versions: tuple[str, ...]
    counts: dict[str, tuple[int, ...]]

    @property
    def totals(self) -> tuple[int, ...]:
        """The findings of all rules in each release."""
        return tuple(map(sum, zip(*self.counts.values(), strict=True))) or (0,) * len(self.versions)


def history(project: str, found: Sequence[tuple[str, Iterable[str]]]) -> History:
    """A history out of the rules of the findings of each version, oldest first."""
    counters = [Counter(rules) for _, rules in found]
    counts = {rule: tuple(c[rule] for c in counters) for rule in sorted(set().union(*counters))}
    return History(project, tuple(version for version, _ in found), counts)


def chosen_versions(span: str, known: Sequence[Version], *, every: bool) -> list[Version]:
    """The versions that ``A..B`` or a list ``A,B,C`` stands for.

    A span takes both its ends and, between them, the last patch of each minor release; with ``every`` all
    final releases. An end that is left out is the first or the last release there is.

    Args:
        span: what a person wrote.
        known: the versions to choose from.
        every: whether to take each patch release of a span.

    Raises:
        UserError: a version is none or is not known, or the span is empty.
    """
    if ".." not in span:
        return [_known(text, known) for text in span.split(",")]
    first, _, last = (part.strip() for part in span.partition(".."))
    finals = [version for version in known if not version.is_prerelease]
    if not finals:
        raise UserError(f"{span}: there are no releases to choose from")
    low = _known(first, known) if first else finals[0]
    high = _known(last, known) if last else finals[-1]
    if low > high:
        raise UserError(f"{span}: {low} is later than {high}; write {high}..{low}")
    between = [version for version in finals if low < version < high]
    if not every:
        newest = {version.release[:2]: version for version in between}
        between = [version for version in newest.values() if version.release[:2] != high.release[:2]]
    return sorted({low, *between, high})


def _known(text: str, known: Sequence[Version]) -> Version:
    try:
        version = Version(text.strip())
    except InvalidVersion:
        raise UserError(f"{text.strip()!r} is no version; write for example 0.20.2..0.33.0") from None
    if version not in known:
        near = sorted(known, key=lambda other: _distance(other, version))[:3]
        hint = f"; the nearest are {', '.join(map(str, sorted(near)))}" if near else ""
        raise UserError(f"{version}: no such release{hint}")
    return version


def _distance(one: Version, other: Version) -> tuple[int, ...]:
    pairs = zip((*one.release, 0, 0, 0), (*other.release, 0, 0, 0), strict=False)
    return tuple(abs(a - b) for a, b in pairs)[:3]
