"""Examining files in several processes: paths go out, results come back, in order."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from dtypefix.errors import UserError

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

Item = TypeVar("Item")
Result = TypeVar("Result")

# Starting a process costs about as much as examining this many files that rules look at.
FILES_PER_PROCESS = 40
_CHUNK = 8
_MOST = 16

_work: Callable[..., object] | None = None


def processes(wanted: int | None, files: int) -> int:
    """How many processes to use for a number of files: as many as asked for, or as pay off."""
    if wanted is not None:
        return max(1, min(wanted, files))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _MOST, files // FILES_PER_PROCESS))


def run(
    make: Callable[..., Callable[[Item], Result]],
    arguments: tuple[object, ...],
    items: Sequence[Item],
    count: int,
) -> Iterator[Result]:
    """``make(*arguments)(item)`` for each item, in order, worked out by ``count`` processes.

    ``make`` and everything that passes to and fro must be picklable: processes are started afresh.

    Raises:
        UserError: a process ended before its work was done.
    """
    # Most runs are too small for a pool, and these imports cost a tenth of one.
    import multiprocessing
    from concurrent.futures import Future, ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(count, context, initializer=_start, initargs=(make, arguments))
    try:
        chunks = [items[at : at + _CHUNK] for at in range(0, len(items), _CHUNK)]
        futures: list[Future[list[Result]]] = [executor.submit(_chunk, chunk) for chunk in chunks]
        for number, future in enumerate(futures):
            yield from future.result()
            futures[number] = Future()  # what has been handed on is not kept
    except BrokenProcessPool:
        raise UserError(
            "a worker process ended unexpectedly (out of memory?): run again with --jobs 1"
        ) from None
    except BaseException:
        _stop(executor)
        raise
    executor.shutdown()


def _stop(executor: ProcessPoolExecutor) -> None:
    for process in list((executor._processes or {}).values()):
        process.terminate()
    executor.shutdown(wait=True, cancel_futures=True)


def _start(make: Callable[..., Callable[[Item], Result]], arguments: tuple[object, ...]) -> None:
    # The terminal sends an interrupt to every process; the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from dtypefix.engine.memory import pause_collector

    pause_collector()
    global _work
    _work = make(*arguments)


def _chunk(items: Sequence[Item]) -> list[Result]:
    assert _work is not None
    return [_work(item) for item in items]  # type: ignore[misc]
