"""Showing on standard error how far a download has come."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class DownloadProgress:
    """A progress bar on a terminal, one line elsewhere, nothing before the first byte comes."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._announced = False

    def __enter__(self) -> DownloadProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def report(self, link: object, completed: int, total: int | None) -> None:
        """Note that ``completed`` of ``total`` bytes have come."""
        if not self._announced:
            self._announced = True
            self._start(total)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=completed, total=total)

    def _start(self, total: int | None) -> None:
        if not sys.stderr.isatty():
            size = f" ({total / 1e6:.0f} MB)" if total else ""
            print(f"Fetching {self._label}{size} …", file=sys.stderr, flush=True)
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("Fetching {task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(self._label, total=total)
        self._bar.start()
