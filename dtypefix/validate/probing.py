"""Running a probe over its cases, also when one of them takes the process down."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dtypefix.validate.overlay import Overlay
from dtypefix.validate.runner import Limits, Runner
from dtypefix.validate.verdict import Place, Reason

ENTRY = Path(__file__).parent / "probes" / "run.py"

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
}

# What a probe must not inherit: variables that would put other code on its path or another platform
# under it.
_DROPPED = ("PYTHONHOME", "PYTHONSTARTUP", "VLLM_PLUGINS", "VLLM_TARGET_DEVICE", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe with its cases: what :func:`run_probe` runs on a tree.

    ``platform`` names what the rows will say it ran on; ``options`` are handed to the probe as they
    are, and ``models`` are the tiny models its cases name.
    """

    name: str
    platform: str
    cases: tuple[Mapping[str, Any], ...]
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """What a probe found on one tree: facts about the runtime, and an outcome for every case."""

    facts: Mapping[str, Any]
    outcomes: Mapping[str, Mapping[str, Any]]
    seconds: float
    peak_memory: int
    log: str = ""


def run_probe(
    runner: Runner, python: Path, overlay: Overlay, probe: Probe, places: Sequence[Place], *, threads: int = 1
) -> ProbeRun:
    """Run a probe's cases on one tree, starting again behind a case that ended the process.

    A case that crashes, hangs or is killed for memory gets an outcome that says so; the cases after it
    run in a new process.

    Raises:
        Cancelled: the runner was cancelled.
    """
    facts: dict[str, Any] = {}
    outcomes: dict[str, Mapping[str, Any]] = {}
    pending = list(probe.cases)
    seconds, peak, log_tail = 0.0, 0, ""
    with tempfile.TemporaryDirectory(prefix="dtypefix-probe-") as folder:
        request, result, log = (Path(folder, name) for name in ("request.json", "result.json", "log"))
        while pending:
            result.unlink(missing_ok=True)
            log.unlink(missing_ok=True)
            request.write_text(
                json.dumps(
                    {
                        "root": str(overlay.root),
                        "result": str(result),
                        "cases": pending,
                        "models": probe.models,
                        "places": [{"path": place.path, "line": place.line} for place in places],
                        **probe.options,
                    }
                )
            )
            ended = runner.run(
                [str(python), "-P", str(ENTRY), probe.name, str(request)],
                log=log,
                env=environment(overlay, folder, threads),
                cwd=Path(folder),
                limits=probe.limits,
            )
            seconds += ended.seconds
            peak = max(peak, ended.peak_memory)
            log_tail = log.read_text("utf-8", "replace")[-4000:]
            said = json.loads(result.read_text()) if result.exists() else {}
            facts.update(said.get("facts", {}))
            outcomes.update(said.get("cases", {}))
            if said.get("done") or (ended.reason is None and not said.get("running")):
                break
            reason = ended.reason or Reason.CRASH
            running = said.get("running")
            stopped = {"stopped": reason.name, "detail": ended.detail, "log": _last_line(log_tail)}
            if running is None:
                # It never reached a case: starting again would end the same way.
                outcomes.update({str(c["name"]): stopped for c in pending if c["name"] not in outcomes})
                break
            outcomes[running] = stopped
            pending = [case for case in pending if case["name"] not in outcomes]
    return ProbeRun(facts, outcomes, seconds, peak, log_tail)


def environment(overlay: Overlay, temporary: str, threads: int) -> dict[str, str]:
    """The environment of a probe: the overlay on the path, its own caches, nothing phoned home."""
    env = {key: value for key, value in os.environ.items() if key not in _DROPPED}
    env |= _ENVIRONMENT
    env |= {
        "PYTHONPATH": str(overlay.root),
        "VLLM_CACHE_ROOT": str(overlay.cache),
        "TMPDIR": temporary,
        # Some helpers are compiled even in eager mode; kept, they cost their seconds once.
        "TORCHINDUCTOR_CACHE_DIR": str(overlay.cache / "inductor"),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }
    return env


def _last_line(log: str) -> str:
    lines = [line for line in log.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
