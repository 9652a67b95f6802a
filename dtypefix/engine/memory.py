"""Keeping the garbage collector out of the way, and memory flat without it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtypefix.analysis.project import Project

# Bytes of source whose syntax trees are kept; a tree takes about thirty times its source.
KEPT_SOURCE = 3 << 20


@contextmanager
def collector_paused() -> Iterator[None]:
    """Turn the cyclic collector off, as parsing makes millions of objects and hardly a cycle.

    On large trees its passes took a third of the time. :func:`relieve` does its work.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def pause_collector() -> None:
    """Turn the cyclic collector off for the rest of a process that does nothing but examine files."""
    gc.freeze()
    gc.disable()


def relieve(project: Project) -> None:
    """Between two files: drop what is kept of others once it is much, cycles included."""
    if project.parsed > KEPT_SOURCE:
        project.forget()
        gc.collect()
