"""The report as JSON."""

from __future__ import annotations

import json
from typing import Any, TextIO

from dtypefix import __version__
from dtypefix.validate.session import Validation
from dtypefix.validate.verdict import Judgement, exit_status

SCHEMA = 1


def as_data(validation: Validation, *, per_platform: bool = False) -> dict[str, Any]:
    """The whole report as plain data; ``verdict`` is exactly one of the six names."""
    request = validation.request
    runtime = request.runtime
    return {
        "schema": SCHEMA,
        "version": __version__,
        "base": str(request.trees.base),
        "patched": str(request.trees.patched),
        "changed": list(request.trees.changed),
        "runtime": {
            "python": runtime.python_version,
            "torch": runtime.torch,
            "extensions": runtime.release or None,
            "devices": list(runtime.devices),
        },
        "rows": [
            {
                "path": row.place.path,
                "line": row.place.line,
                "rule": row.place.rule,
                "symbol": row.place.symbol,
                "platform": row.platform,
                "tier": row.tier.value,
                **_judgement(row.judgement),
                "behind": [_judgement(judgement) for judgement in row.behind],
            }
            for row in validation.rows
        ],
        "static": {
            "files": validation.static.files,
            "ruff": validation.static.ruff,
            "problems": validation.static.problems,
        },
        "end_to_end": list(validation.smoke),
        "notes": list(validation.notes),
        "facts": {key: dict(value) for key, value in validation.facts.items()},
        "timings": [
            {
                "probe": timing.probe,
                "tree": timing.tree,
                "seconds": round(timing.seconds, 2),
                "peak_memory": timing.peak_memory,
            }
            for timing in validation.timings
        ],
        "seconds": round(validation.seconds, 2),
        "exit_status": exit_status(validation.rows, per_platform=per_platform),
    }


def _judgement(judgement: Judgement) -> dict[str, Any]:
    return {
        "verdict": judgement.verdict.value,
        "reason": judgement.reason.value if judgement.reason else None,
        "detail": judgement.detail,
        "case": judgement.case,
        "before": judgement.before,
        "after": judgement.after,
    }


def write(validation: Validation, out: TextIO, *, per_platform: bool = False) -> None:
    """Write the report as one JSON document."""
    json.dump(as_data(validation, per_platform=per_platform), out, indent=2)
    out.write("\n")
