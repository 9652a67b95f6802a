"""The cache of one tree: which results of earlier runs still hold.

A result is kept with the digest of its file and with what its rules looked up elsewhere, whether they
found it or not. It holds while all of that is as it was. Rules, knowledge, settings and versions are part
of the index's name. An index is one file, written whole and moved into place, so that runs at the
same time only cost each other work; one that does not pass its check sum counts as empty.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dtypefix.cache import codec
from dtypefix.cache.digests import Digests, digest_of
from dtypefix.findings import FileResult
from dtypefix.sources.lookup import FileLookup

INDEXES_KEPT = 32
BYTES_KEPT = 128 << 20
ENTRIES_KEPT = 50_000


class Store:
    """What is known of one tree under one set of rules."""

    def __init__(self, folder: Path, key: str, lookup: FileLookup) -> None:
        self._folder = folder
        self._file = folder / f"{key}.json"
        stored = _read(self._file)
        self._results: dict[str, list[Any]] = stored.get("results", {})
        self._headers: dict[str, list[list[str]]] = stored.get("headers", {})
        self.digests = Digests({k: tuple(v) for k, v in stored.get("stamps", {}).items()})
        self._lookup = lookup
        self._now: dict[str, str] = {}
        self._used: dict[str, list[Any]] = {}
        self._changed = False
        lookup.header_cache = self

    def get(self, path: str, file: Path, variant: str) -> FileResult | None:
        """The result for a file, if one is known that still holds.

        Args:
            path: how reports name the file.
            file: where it lies.
            variant: the rules that run on it and all else that is not the same for every file.
        """
        entry = self._results.get(path)
        if entry is None or entry[0] != variant or entry[1] != self.digests.of(file):
            return None
        if any(self._value(asked) != value for asked, value in entry[2].items()):
            return None
        try:
            result = codec.decode(path, entry[3])
        except (ValueError, TypeError, LookupError):
            return None
        self._used[path] = entry
        return result

    def put(self, result: FileResult, variant: str, digest: str, asked: Iterable[str]) -> None:
        """Keep the result of a file whose bytes have ``digest``, and what it was found to depend on."""
        if result.skipped is not None:
            return
        depends = {question: self._value(question) for question in sorted(asked)}
        self._used[result.path] = [variant, digest, depends, codec.encode(result)]
        self._changed = True

    def headers(self, file: Path) -> list[list[str]] | None:
        """The class headers of a file as an earlier run found them, or None."""
        return self._headers.get(self.digests.of(file))

    def put_headers(self, file: Path, headers: list[list[str]]) -> None:
        """Keep the class headers of a file."""
        self._headers[self.digests.of(file)] = headers
        self._changed = True

    def _value(self, asked: str) -> str:
        """What a question comes to now."""
        known = self._now.get(asked)
        if known is None:
            known = self._now[asked] = self._answer(*asked.split(" ", 1))
        return known

    def _answer(self, kind: str, name: str) -> str:
        if kind == "m":
            place = self._lookup.locate(name)
            return f"{place}:{self.digests.of(place)}" if place is not None else ""
        if kind == "l":
            return str(self._lookup.line_length(name))
        return digest_of(repr(self._lookup.derived(name)).encode())

    def save(self) -> None:
        """Write the index if anything in it is new. A cache that cannot be written is no error."""
        if not (self._changed or self.digests.changed):
            return
        kept = {**self._used}
        for path, entry in self._results.items():
            if len(kept) >= ENTRIES_KEPT:
                break
            kept.setdefault(path, entry)
        stamps = self.digests.stamps
        used = {digest for _, _, digest in stamps.values()}
        if len(stamps) > 2 * ENTRIES_KEPT:
            stamps = {}
        content = {
            "results": kept,
            "headers": {digest: found for digest, found in self._headers.items() if digest in used},
            "stamps": stamps,
        }
        data = json.dumps(content, separators=(",", ":")).encode()
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            _write(self._file, f"{digest_of(data)}\n".encode() + data)
            _evict(self._folder)


def _read(file: Path) -> dict[str, Any]:
    try:
        check, _, data = file.read_bytes().partition(b"\n")
        if check.decode("ascii") == digest_of(data):
            content: dict[str, Any] = json.loads(data)
            return content
    except (OSError, ValueError):
        pass
    return {}


def _write(file: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=file.parent, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as target:
            target.write(data)
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _evict(folder: Path) -> None:
    """Remove the indexes that were written longest ago, so that the folder stays bounded."""
    found = sorted(
        ((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in os.scandir(folder)),
        reverse=True,
    )
    total = 0
    for number, (_, size, path) in enumerate(found):
        total += size
        if number and (number >= INDEXES_KEPT or total > BYTES_KEPT):
            with contextlib.suppress(OSError):
                os.unlink(path)
