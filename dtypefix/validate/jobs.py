"""Which probes a request comes to, and on which overlays they run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dtypefix.validate import planning
from dtypefix.validate.overlay import tree_version
from dtypefix.validate.probing import Probe
from dtypefix.validate.runner import Limits
from dtypefix.validate.runtime import Runtime
from dtypefix.validate.trees import Trees
from dtypefix.validate.verdict import Place, Tier

CPU = "cpu"
# Ampere has no float8 units: there every scheme takes its weight-only path.
FORCED = ("cuda:sm_80", "cuda:sm_89", "cuda:sm_90", "cuda:sm_100", "rocm:gfx942")
TIERS = (Tier.STATIC, Tier.MODEL, Tier.FLIP, Tier.PLATFORM, Tier.LORA, Tier.E2E, Tier.DEVICE)


@dataclass(frozen=True, slots=True)
class Request:
    """What to validate and how.

    ``probes`` maps a rule to the probes its page names (``model``, ``flip``, ``platform``);
    ``platforms`` holds ``cpu`` and the platforms to force; ``device`` is ``cuda`` or ``rocm`` where the
    runtime has one, else ``""``.
    """

    trees: Trees
    places: tuple[Place, ...]
    probes: Mapping[str, tuple[str, ...]]
    runtime: Runtime
    cache: Path
    platforms: tuple[str, ...] = (CPU, *FORCED)
    tiers: frozenset[Tier] = frozenset(TIERS)
    device: str = ""
    limits: Limits = field(default_factory=Limits)
    workers: int = 2

    def named(self, probe: str) -> tuple[Place, ...]:
        """The places whose rule names a probe."""
        return tuple(place for place in self.places if probe in self.probes.get(place.rule, ()))


@dataclass(frozen=True, slots=True)
class Job:
    """One probe to run on both trees, and the places it may speak of.

    ``wanted`` names the cases that judge a place where not every case can; ``extensions`` links the
    runtime's compiled vLLM and ``local`` is the overlay's version label.
    """

    tier: Tier
    probe: Probe
    places: tuple[Place, ...]
    wanted: Mapping[Place, Sequence[str]] | None = None
    extensions: bool = False
    local: str = CPU

    @property
    def label(self) -> str:
        """How progress and timings name it."""
        case = f" {self.probe.cases[0]['name']}" if self.tier is Tier.E2E else ""
        return f"{self.tier} {self.probe.name} {self.probe.platform}{case}"

    def cases(self, place: Place) -> Sequence[str]:
        """The names of the cases that may judge a place."""
        if self.wanted is not None:
            return self.wanted.get(place, ())
        return [str(case["name"]) for case in self.probe.cases]


def fits(request: Request) -> bool:
    """Whether the runtime's compiled extensions may serve the tree: those of a neighbouring release do."""
    if request.runtime.package is None:
        return False
    own, tree = (
        tuple(int(part) for part in re.findall(r"\d+", version)[:2])
        for version in (request.runtime.release, tree_version(request.trees.base))
    )
    return own[:1] == tree[:1] and abs(own[1] - tree[1]) <= 1


def has_bindings(request: Request) -> bool:
    """Whether the base tree has the sources that declare its compiled operators."""
    return (request.trees.base / "csrc").is_dir()


def jobs_of(request: Request) -> list[Job]:
    """The jobs of a request, the longest first, so that workers end together."""
    return [job for job in _jobs(request) if job.probe.cases and (job.places or job.tier is Tier.E2E)]


def _jobs(request: Request) -> Iterator[Job]:
    tiers, limits = request.tiers, request.limits
    drafted, quantised = request.named("model"), request.named("flip")
    cases, wanted = planning.model_cases(request.trees.base, drafted)
    schemes = planning.flip_cases()
    drafters, layers = planning.model_folders(cases), planning.model_folders(schemes)
    symptom = tuple(planning.lora_cases(schemes))

    def model(platform: str, **options: Any) -> Probe:
        return Probe("model", platform, tuple(cases), drafters, options, limits)

    def flip(where: str, name: str = "flip", **options: Any) -> Probe:
        return Probe(name, where, tuple(schemes), layers, options, limits)

    def lora(platform: str, **options: Any) -> Probe:
        return Probe("lora", platform, symptom, layers, options, limits)

    if CPU in request.platforms and Tier.E2E in tiers and fits(request):
        for probe, names in planning.e2e_probes(drafted, wanted, bool(quantised)):
            yield Job(Tier.E2E, probe, tuple(names), names, extensions=True)
    if Tier.PLATFORM in tiers and has_bindings(request):
        for platform in request.platforms:
            if platform != CPU:
                probe = flip(platform, "platforms", platform=platform)
                yield Job(Tier.PLATFORM, probe, request.named("platform"))
    if CPU in request.platforms:
        if Tier.MODEL in tiers:
            yield Job(Tier.MODEL, model(CPU), drafted, wanted)
        if Tier.FLIP in tiers:
            yield Job(Tier.FLIP, flip(CPU), quantised)
        if Tier.LORA in tiers:
            yield Job(Tier.LORA, lora(CPU), quantised)
    if request.device and Tier.DEVICE in tiers:
        # PyTorch calls a ROCm device cuda too.
        yield Job(Tier.DEVICE, model(request.device, device="cuda"), drafted, wanted, local="")
        yield Job(Tier.DEVICE, flip(request.device, device="cuda"), quantised, local="")
        yield Job(Tier.DEVICE, lora(request.device, device="cuda"), quantised, local="")
