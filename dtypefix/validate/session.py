"""One validation from beginning to end: the probes of every tier on both trees, then the verdicts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dtypefix.validate import static
from dtypefix.validate.jobs import CPU, TIERS, Job, Request, fits, has_bindings, jobs_of
from dtypefix.validate.judging import (
    compare_tokens,
    judge_e2e,
    judge_flip,
    judge_lora,
    judge_model,
    told_of,
    unreached,
)
from dtypefix.validate.overlay import Overlay, build
from dtypefix.validate.probing import Probe, ProbeRun, run_probe
from dtypefix.validate.runner import Runner
from dtypefix.validate.verdict import Judgement, Place, Reason, Row, Tier, Verdict, weigh


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one probe took on one tree, and the most memory it held."""

    probe: str
    tree: str
    seconds: float
    peak_memory: int


@dataclass(frozen=True, slots=True)
class Validation:
    """Everything a report is made of."""

    request: Request
    rows: tuple[Row, ...]
    facts: Mapping[str, Mapping[str, object]]
    timings: tuple[Timing, ...]
    static: static.StaticReport
    smoke: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float


def validate(
    request: Request, runner: Runner | None = None, progress: Callable[[str], None] = lambda _: None
) -> Validation:
    """Run the probes on both trees and judge every place.

    Independent probes run at the same time, as many as ``request.workers``. On an interruption every
    process is ended before the exception leaves.

    Args:
        request: what to validate.
        runner: starts the processes; one of its own when None.
        progress: told when a probe has ended on a tree.

    Raises:
        Cancelled: the runner was cancelled.
        KeyboardInterrupt: the person interrupted; no process is left.
    """
    runner = runner or Runner()
    started = time.monotonic()
    checked = static.check(request.trees)
    jobs = jobs_of(request)
    overlays = _overlays(request, jobs)
    runs: dict[tuple[int, str], Future[ProbeRun]] = {}
    with ThreadPoolExecutor(max_workers=request.workers) as pool:
        try:
            for number, job in enumerate(jobs):
                for tree in ("base", "patched"):
                    overlay = overlays[tree, job.extensions, job.local]
                    source = request.trees.base if tree == "base" else request.trees.patched
                    runs[number, tree] = pool.submit(
                        _run, runner, request, job, overlay, source, partial(_tell, progress, job, tree)
                    )
            done = {key: future.result() for key, future in runs.items()}
        except BaseException:
            runner.cancel()
            raise
    rows = _merged(_judge(request, jobs, done))
    rows += _unprobed(request, rows)
    rows += _static_rows(request, checked) + _smoke_rows(request, jobs, done)
    return Validation(
        request,
        tuple(sorted(rows, key=lambda row: (row.place, TIERS.index(row.tier), row.platform))),
        {job.label: done[number, "patched"].facts for number, job in enumerate(jobs)},
        tuple(
            Timing(jobs[number].label, tree, run.seconds, run.peak_memory)
            for (number, tree), run in done.items()
        ),
        checked,
        tuple(_smoke(jobs, done)),
        _notes(request, jobs),
        time.monotonic() - started,
    )


def _tell(progress: Callable[[str], None], job: Job, tree: str, seconds: float) -> None:
    progress(f"{job.label} on the {tree} tree: {seconds:.0f} s")


def _run(
    runner: Runner,
    request: Request,
    job: Job,
    overlay: Overlay,
    source: Path,
    finished: Callable[[float], None],
) -> ProbeRun:
    probe = job.probe
    if job.tier in (Tier.PLATFORM, Tier.DEVICE):
        bindings = next((root for root in (source, request.trees.base) if (root / "csrc").is_dir()), source)
        options = {**probe.options, "csrc": str(bindings / "csrc")}
        probe = Probe(probe.name, probe.platform, probe.cases, probe.models, options, probe.limits)
    result = run_probe(runner, request.runtime.python, overlay, probe, job.places)
    finished(result.seconds)
    return result


def _overlays(request: Request, jobs: Sequence[Job]) -> dict[tuple[str, bool, str], Overlay]:
    found = {}
    for tree, root in (("base", request.trees.base), ("patched", request.trees.patched)):
        for extensions, local in {(job.extensions, job.local) for job in jobs}:
            package = request.runtime.package if extensions or local != CPU else None
            found[tree, extensions, local] = build(root, package, request.cache, local=local)
    return found


def _judge(request: Request, jobs: Sequence[Job], done: Mapping[tuple[int, str], ProbeRun]) -> list[Row]:
    rows: list[Row] = []
    reach = _reach(jobs, done)
    for number, job in enumerate(jobs):
        base, patched = done[number, "base"].outcomes, done[number, "patched"].outcomes
        for place in job.places:
            judgements: list[Judgement] = []
            for name in job.cases(place):
                if name not in base or name not in patched:
                    continue
                before, after = base[name], patched[name]
                if job.probe.name == "model":
                    if (said := judge_model(place, name, before, after)) is not None:
                        judgements.append(said)
                elif job.probe.name == "e2e":
                    judgements.append(judge_e2e(place, name, before, after))
                elif job.probe.name == "lora":
                    if (said := judge_lora(place, name, before, after)) is not None:
                        judgements.append(said)
                elif (said := judge_flip(place, name, before, after)) is not None:
                    judgements.append(said)
                elif name in reach.get(place, ()):
                    judgements.append(unreached(name, before))
            if not judgements and job.probe.name in ("lora", "e2e"):
                continue
            if not judgements:
                unknown = job.probe.name == "model" and not job.cases(place)
                reason = Reason.NO_CONFIG if unknown else Reason.NOT_REACHED
                judgements.append(Judgement(Verdict.NOT_VALIDATED, reason))
            rows.append(Row(place, job.probe.platform, job.tier, weigh(judgements), tuple(judgements)))
    return rows


def _smoke(jobs: Sequence[Job], done: Mapping[tuple[int, str], ProbeRun]) -> Iterator[str]:
    """What the engines that judge no single place showed, one line each."""
    for number, job in enumerate(jobs):
        if job.probe.name != "e2e":
            continue
        for case in job.probe.cases:
            name = str(case["name"])
            base, patched = (done[number, tree].outcomes.get(name, {}) for tree in ("base", "patched"))
            if case.get("inject"):
                continue
            if "stopped" in base or "error" in base:
                yield f"{name}: does not run on the base tree: {told_of(base)}"
            elif changed := compare_tokens(name, base, patched):
                yield f"{name}: {changed.verdict}: {changed.detail}"
            else:
                tokens = sum(len(part) for part in base["tokens"])
                yield f"{name}: {tokens} tokens, the same before and after"


def _smoke_rows(request: Request, jobs: Sequence[Job], done: Mapping[tuple[int, str], ProbeRun]) -> list[Row]:
    """A row for every place when an engine that judges no single place changed its tokens."""
    rows = []
    for number, job in enumerate(jobs):
        if job.probe.name != "e2e" or job.wanted:
            continue
        for case in job.probe.cases:
            name = str(case["name"])
            base, patched = (done[number, tree].outcomes.get(name, {}) for tree in ("base", "patched"))
            if "stopped" in base or "error" in base or "stopped" in patched:
                continue
            if changed := compare_tokens(name, base, patched):
                rows += [Row(place, CPU, Tier.E2E, changed) for place in request.places]
    return rows


def _merged(rows: Sequence[Row]) -> list[Row]:
    """One row for each place, platform and tier, however many probes spoke of them."""
    grouped: dict[tuple[Place, str, Tier], list[Judgement]] = {}
    for row in rows:
        grouped.setdefault((row.place, row.platform, row.tier), []).extend(row.behind)
    return [Row(*key, weigh(judgements), tuple(judgements)) for key, judgements in grouped.items()]


def _reach(jobs: Sequence[Job], done: Mapping[tuple[int, str], ProbeRun]) -> dict[Place, set[str]]:
    """The flip cases that run a place's line on some platform: one that is refused elsewhere still counts."""
    found: dict[Place, set[str]] = {}
    for number, job in enumerate(jobs):
        if job.probe.name not in ("flip", "platforms"):
            continue
        for name, outcome in done[number, "base"].outcomes.items():
            lines = [line for flip in outcome.get("flips", {}).values() for line in flip["covered"]]
            for place in job.places:
                if [place.path, place.line] in lines:
                    found.setdefault(place, set()).add(name)
    return found


def _unprobed(request: Request, rows: Sequence[Row]) -> list[Row]:
    judged = {row.place for row in rows}
    found = []
    for place in request.places:
        if place in judged:
            continue
        reason, detail = Reason.NO_RUNTIME, "its tiers were left out of this run"
        if not request.probes.get(place.rule):
            reason, detail = Reason.NO_PROBE, place.rule
        elif place in request.named("model") and Tier.MODEL in request.tiers:
            reason, detail = Reason.NO_CONFIG, place.class_name
        found.append(Row(place, CPU, Tier.STATIC, Judgement(Verdict.NOT_VALIDATED, reason, detail)))
    return found


def _static_rows(request: Request, checked: static.StaticReport) -> list[Row]:
    return [
        Row(
            place,
            CPU,
            Tier.STATIC,
            Judgement(Verdict.CONTROL_FAILED, Reason.STATIC_CHECK, checked.problems[place.path]),
        )
        for place in request.places
        if place.path in checked.problems
    ]


def _notes(request: Request, jobs: Sequence[Job]) -> tuple[str, ...]:
    notes = []
    if any(job.tier is Tier.PLATFORM for job in jobs):
        notes.append(
            "Platform probes propagate dtypes through fake tensors: no CUDA or ROCm kernel was executed, "
            "and operators that ask whether something is supported answered yes."
        )
    elif Tier.PLATFORM in request.tiers and not has_bindings(request):
        notes.append("Platform probes were left out: the base tree has no csrc to read operators from.")
    if Tier.E2E in request.tiers and not fits(request):
        compiled = request.runtime.release or "no release"
        notes.append(f"End to end was left out: the runtime's compiled vLLM is of {compiled}.")
    if Tier.DEVICE in request.tiers and not request.device:
        notes.append("The device tier was left out: the runtime has no CUDA or ROCm device.")
    return tuple(notes)
