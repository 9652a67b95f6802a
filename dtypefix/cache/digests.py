"""Digests of files, read again only where the file system says that they changed."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from dtypefix.sources.read import Unreadable, read_source

MISSING = "-"
# A file written within this time could be written again without a change of its time stamp.
_UNSETTLED = 2_000_000_000  # nanoseconds

Stamp = tuple[int, int, str]


def digest_of(data: bytes) -> str:
    """The digest of some bytes."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def signature(folders: Iterable[Path]) -> str:
    """A digest of names, sizes and times of all files in folders: what stands for code that is not read."""
    found: list[str] = []
    for folder in folders:
        for place, below, names in os.walk(folder):
            below[:] = [name for name in below if name != "__pycache__"]
            for name in names:
                at = os.stat(os.path.join(place, name))
                found.append(f"{place}/{name} {at.st_size} {at.st_mtime_ns}")
    return digest_of("\n".join(sorted(found)).encode())


class Digests:
    """The digests of files by path. ``stamps`` are size, time and digest as an earlier run found them."""

    def __init__(self, stamps: dict[str, Stamp]) -> None:
        self.stamps = stamps
        self.changed = False
        self._now: dict[str, str] = {}

    def of(self, path: Path, data: bytes | None = None) -> str:
        """The digest of a file, ``MISSING`` where it cannot be read; ``data`` are its bytes if known."""
        key = os.fspath(path)
        known = self._now.get(key)
        if known is None:
            known = self._now[key] = self._look(path, key, data)
        return known

    def _look(self, path: Path, key: str, data: bytes | None) -> str:
        try:
            at = os.stat(key)
            stamp = self.stamps.get(key)
            if stamp is not None and stamp[0] == at.st_size and stamp[1] == at.st_mtime_ns:
                return stamp[2]
            digest = digest_of(read_source(path) if data is None else data)
        except (OSError, Unreadable):
            return MISSING
        self.changed = True
        if time.time_ns() - at.st_mtime_ns > _UNSETTLED:
            self.stamps[key] = (at.st_size, at.st_mtime_ns, digest)
        else:
            self.stamps.pop(key, None)
        return digest
