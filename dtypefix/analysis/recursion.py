"""Room for source that is nested deeper than Python's own limit of calls allows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

# A chain of 400 `+` overflows LibCST's recursive parser bindings at Python's default of 1,000.
_RECURSION = 10_000


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise the limit while a deep tree is made or walked."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
