"""Showing on standard error that a run is still going."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
PATIENCE = 1.0  # seconds before a bar appears


def with_progress(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """``items`` as they are, with a bar on standard error once they take more than a second.

    Without a terminal on standard error there is no bar.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    started = time.monotonic()
    iterator = iter(items)
    done = 0
    for item in iterator:
        yield item
        done += 1
        if time.monotonic() - started > PATIENCE:
            break
    else:
        return
    # rich is imported only now that there is something to show with it.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total, completed=done)
        for item in iterator:
            yield item
            progress.advance(task)
