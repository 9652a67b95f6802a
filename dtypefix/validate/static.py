"""The static tier: every changed file parses and keeps the tree's own ruff settings. Nothing is run."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dtypefix.validate.trees import Trees

SETTINGS = ("ruff.toml", ".ruff.toml", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class StaticReport:
    """What was checked, and what is wrong per changed file."""

    files: int
    ruff: str
    problems: dict[str, str]


def check(trees: Trees) -> StaticReport:
    """Check the changed files of the patched tree against the base tree's state."""
    problems: dict[str, str] = {}
    present = [path for path in trees.changed if (trees.patched / path).is_file()]
    for path in present:
        try:
            ast.parse((trees.patched / path).read_bytes(), path)
        except (SyntaxError, ValueError) as error:
            problems[path] = f"does not parse: {error}"
    ruff = _ruff()
    if ruff is None:
        return StaticReport(len(present), "ruff is not installed: its settings were not checked", problems)
    settings = next(
        (root / name for name in SETTINGS for root in (trees.patched, trees.base) if (root / name).is_file()),
        None,
    )
    if settings is None:
        return StaticReport(len(present), "the tree has no ruff settings to check", problems)
    before, after = (_diagnostics(ruff, settings, root, present) for root in (trees.base, trees.patched))
    if before is None or after is None:
        return StaticReport(len(present), "ruff could not read the tree's settings", problems)
    for path in present:
        new = after.get(path, Counter()) - before.get(path, Counter())
        if new and path not in problems:
            problems[path] = "new ruff diagnostics: " + ", ".join(sorted(new))
    return StaticReport(len(present), "ruff with the tree's settings", problems)


def _ruff() -> str | None:
    beside = Path(sys.executable).with_name("ruff")
    return str(beside) if beside.is_file() else shutil.which("ruff")


def _diagnostics(ruff: str, settings: Path, root: Path, paths: list[str]) -> dict[str, Counter[str]] | None:
    existing = [path for path in paths if (root / path).is_file()]
    if not existing:
        return {}
    command = [ruff, "check", "--config", str(settings), "--output-format", "json", "--no-cache"]
    command += ["--force-exclude", *existing]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        return None
    found: dict[str, Counter[str]] = {}
    for item in json.loads(done.stdout or "[]"):
        path = Path(item["filename"]).resolve().relative_to(root.resolve()).as_posix()
        found.setdefault(path, Counter())[item["code"] or "syntax"] += 1
    return found
