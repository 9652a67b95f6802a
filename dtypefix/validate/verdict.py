"""What a probe can show about a rewritten place: verdicts, the closed list of reasons, rows, exit status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """The six things that can be said of a place on a platform."""

    VALIDATED = "VALIDATED"
    REPRODUCED_NOT_FIXED = "REPRODUCED-NOT-FIXED"
    NOT_REPRODUCED = "NOT REPRODUCED"
    CONTROL_FAILED = "CONTROL FAILED"
    NOT_APPLICABLE = "NOT APPLICABLE"
    NOT_VALIDATED = "NOT VALIDATED"


class Tier(StrEnum):
    """The probes, from the cheapest to the one that needs a device."""

    STATIC = "static"
    MODEL = "model"
    FLIP = "flip"
    PLATFORM = "platform"
    LORA = "lora"
    E2E = "e2e"
    DEVICE = "device"


class Reason(StrEnum):
    """Why a verdict is not VALIDATED. The list is closed so that reports can be compared and counted."""

    NO_PROBE = "the rule names no probe"
    NO_RUNTIME = "no runtime can import this tree"
    NOT_REACHED = "no probe reached the line"
    NO_CONFIG = "no tiny configuration is known for the class"
    BUILD_FAILED = "the class could not be built"
    UNSUPPORTED = "not supported on this platform"
    NO_KERNEL = "no kernel for this scheme on this platform"
    OP_MISSING = "a compiled operator is missing"
    ABI_MISMATCH = "the compiled extension does not fit this tree"
    DEPENDENCY_MISSING = "a Python dependency of the tree is missing"
    TRITON_ONLY = "the path exists as a Triton kernel only"
    DATA_DEPENDENT = "the path depends on data that fake tensors do not have"
    NO_DEVICE = "no such device in this runtime"
    OTHER_ERROR = "the probe stopped at an error that is not the fault"
    TIME_LIMIT = "the probe ran past its time limit"
    MEMORY_LIMIT = "the probe was killed for memory"
    CRASH = "the probe crashed"
    STILL_FAILS = "the fault is still there"
    STILL_FOLLOWS = "the dtype still follows the process default"
    CAST_TOO_LATE = "the same values in another dtype give another result"
    BASE_PASSES = "the base tree does not show the fault"
    CONTROL_DIFFERS = "the control's values changed"
    CONTROL_RAISES = "the control fails on the patched tree"
    BASE_CONTROL = "the control fails on the base tree"
    STATIC_CHECK = "the patched file does not parse, import or pass the tree's own ruff settings"


FAILED = frozenset({Verdict.REPRODUCED_NOT_FIXED, Verdict.CONTROL_FAILED})
SETTLED = frozenset({Verdict.VALIDATED, Verdict.NOT_APPLICABLE})

# Where several cases or tiers speak about one place, the first of these that was given wins:
# a failure is never outvoted, and a proof is not undone by a probe that could not run.
PRECEDENCE: tuple[Verdict, ...] = (
    Verdict.CONTROL_FAILED,
    Verdict.REPRODUCED_NOT_FIXED,
    Verdict.VALIDATED,
    Verdict.NOT_REPRODUCED,
    Verdict.NOT_VALIDATED,
    Verdict.NOT_APPLICABLE,
)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A rewritten place of the base tree: what a verdict is about.

    ``path`` is relative to the tree's root with ``/`` on every system, ``line`` counts from 1 in the
    base file and is the finding's line. ``symbol`` is the scope, ``Class.method``.
    """

    path: str
    line: int
    rule: str
    symbol: str = ""

    @property
    def class_name(self) -> str:
        """The class the place stands in, ``""`` outside a class."""
        return self.symbol.partition(".")[0] if "." in self.symbol else ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verdict with its reason and the texts it rests on, for one case of one probe."""

    verdict: Verdict
    reason: Reason | None = None
    detail: str = ""
    case: str = ""
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """The verdict on one place, platform and tier, with every judgement behind it."""

    place: Place
    platform: str
    tier: Tier
    judgement: Judgement
    behind: tuple[Judgement, ...] = field(default=(), repr=False)

    @property
    def verdict(self) -> Verdict:
        """The row's verdict."""
        return self.judgement.verdict


def weigh(judgements: Sequence[Judgement]) -> Judgement:
    """The judgement that speaks for all: the first by ``PRECEDENCE``, the earliest among equals."""
    return min(judgements, key=lambda j: PRECEDENCE.index(j.verdict))


def overall(rows: Iterable[Row], *, per_platform: bool) -> dict[tuple[Place, str], Verdict]:
    """The verdict per place, or per place and platform where the platforms were asked for by name.

    The second part of the key is ``""`` when ``per_platform`` is false.
    """
    grouped: dict[tuple[Place, str], list[Judgement]] = {}
    for row in rows:
        grouped.setdefault((row.place, row.platform if per_platform else ""), []).append(row.judgement)
    return {key: weigh(judgements).verdict for key, judgements in grouped.items()}


def exit_status(rows: Sequence[Row], *, per_platform: bool = False) -> int:
    """1 when a fix failed, else 3 when something was not shown, else 0."""
    verdicts = set(overall(rows, per_platform=per_platform).values())
    if any(row.verdict in FAILED for row in rows):
        return 1
    return 0 if verdicts <= SETTLED else 3
