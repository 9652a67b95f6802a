"""Ending on a signal as on any other failure: temporary files removed, nothing half written."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopped_by_signals() -> Iterator[list[int]]:
    """Let an interrupt and a request to terminate raise ``KeyboardInterrupt``, unless they are ignored.

    Yields:
        The signals that came. An import that one of them cuts short can swallow what was raised and
        leave half a module behind, so that an error after it means nothing else.
    """
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise KeyboardInterrupt

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            try:
                before[number] = signal.signal(number, stop)
            except ValueError:  # not the main thread
                break
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
