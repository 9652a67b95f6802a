"""The history: rows of repaired places, rows of places that are right, and the releases they name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = {"vllm": "vllm", "sglang": "sglang", "vllm-ascend": "vllm_ascend"}

Row = dict[str, Any]


def load(path: Path) -> list[Row]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def save(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as a JSONL file."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def release(row: Row, side: str) -> str:
    """``vllm-0.20.2``: the release of a row's ``before`` or ``after`` side, or of a negative."""
    return f"{row['project']}-{row['version_' + side] if side else row['version']}"


def releases(fixes: Iterable[Row], negatives: Iterable[Row]) -> list[str]:
    """Every release that a row names."""
    names = {release(row, side) for row in fixes for side in ("before", "after")}
    names |= {release(row, "") for row in negatives}
    return sorted(names)
