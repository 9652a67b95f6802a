"""Where a run's time goes and how much work it did: counts are the same on every machine."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Profile:
    """Seconds by stage and by rule, and counts of work.

    ``counts`` has ``files``, ``bytes``, ``files parsed`` (with the stdlib's ``ast``), ``lines parsed``,
    ``units`` and ``lines in units`` (what LibCST parsed) and ``nodes`` (of those units).
    """

    stages: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a stage."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] += time.perf_counter() - started  # type: ignore[assignment]

    @contextmanager
    def rule(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a rule."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.rules[name] += time.perf_counter() - started  # type: ignore[assignment]

    def table(self) -> str:
        """The profile for a person to read."""
        lines = ["seconds by stage"]
        lines += [f"  {seconds:9.3f}  {name}" for name, seconds in self.stages.most_common()]
        lines += ["seconds by rule, candidates and visits, what they look up included"]
        lines += [f"  {seconds:9.3f}  {name}" for name, seconds in self.rules.most_common()]
        lines += ["work"]
        lines += [f"  {count:>9,}  {name}" for name, count in sorted(self.counts.items())]
        return "\n".join(lines)
