"""Telling one fault from its copies: the same finding in the copies of a file for several platforms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from dtypefix.findings import Finding

# Folders by which projects keep one copy of a file for each kind of device.
PLATFORMS = frozenset(
    {"amd", "ascend", "cpu", "cuda", "gpu", "hip", "hpu", "intel", "mlu", "mps", "musa"}
    | {"neuron", "npu", "nvidia", "rocm", "tpu", "xpu"}
)


@dataclass(frozen=True, slots=True)
class Group:
    """A finding and its twins: the same rule, message and place in copies for other platforms."""

    first: Finding
    twins: tuple[Finding, ...] = ()


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """Findings in their order, each with its platform twins folded into the first of them."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    seen: defaultdict[tuple[object, ...], int] = defaultdict(int)
    for finding in findings:
        parts = finding.path.split("/")
        general = tuple("*" if part in PLATFORMS else part for part in parts)
        what = (finding.rule, finding.level, finding.message, finding.fix is None)
        # Two alike findings in one file are two faults, so each has twins of its own.
        ordinal = seen[(finding.path, *what)]
        seen[(finding.path, *what)] += 1
        alone = "*" not in general
        groups.setdefault((finding.path if alone else general, *what, ordinal), []).append(finding)
    return [Group(members[0], tuple(members[1:])) for members in groups.values()]


def short_places(group: Group) -> list[str]:
    """Where the twins stand, each without the folders that it shares with the first of the group."""
    first = group.first.path.split("/")
    places = []
    for twin in group.twins:
        parts = twin.path.split("/")
        shared = next((i for i, (a, b) in enumerate(zip(first, parts, strict=False)) if a != b), 0)
        places.append(f"{'/'.join(parts[shared:])}:{twin.span.line}")
    return places
