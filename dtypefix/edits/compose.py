"""Choosing fixes that do not overlap and applying them to a file's bytes."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import islice

from dtypefix.findings import Edit, Finding


def overlaps(edit: Edit, taken: Sequence[tuple[int, int]]) -> bool:
    """Whether an edit touches a byte that another one replaces, or inserts where another inserts.

    Args:
        edit: the edit.
        taken: the byte ranges of the others, in order, none overlapping another.
    """
    at = bisect_left(taken, (edit.start_byte, -1))
    # Of those that start before it, only the last can reach into it.
    for start, end in islice(taken, max(at - 1, 0), None):
        if start > edit.end_byte:
            return False
        if (edit.start_byte, edit.end_byte) == (start, end):
            return True
        if edit.start_byte < end and start < edit.end_byte:
            return True
    return False


def choose(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Split findings with a fix into those that apply together and those to defer.

    The first in the file wins. An edit that two fixes share to the letter (the same added import)
    is no overlap.
    """
    taken: set[tuple[int, int, str]] = set()
    ranges: list[tuple[int, int]] = []
    chosen: list[Finding] = []
    deferred: list[Finding] = []
    for finding in findings:
        if finding.fix is None:
            continue
        fresh = [e for e in finding.fix.edits if (e.start_byte, e.end_byte, e.replacement) not in taken]
        if any(overlaps(edit, ranges) for edit in fresh):
            deferred.append(finding)
            continue
        chosen.append(finding)
        for edit in fresh:
            taken.add((edit.start_byte, edit.end_byte, edit.replacement))
            insort(ranges, (edit.start_byte, edit.end_byte))
    return chosen, deferred


def edits_of(findings: Iterable[Finding]) -> list[Edit]:
    """The edits of the findings' fixes, each once, in file order."""
    unique = {
        (e.start_byte, e.end_byte, e.replacement): e
        for finding in findings
        if finding.fix is not None
        for e in finding.fix.edits
    }
    return sorted(unique.values(), key=lambda e: (e.start_byte, e.end_byte))


def apply(source: bytes, edits: Sequence[Edit], encoding: str = "utf-8") -> bytes:
    """Apply edits that do not overlap, given in file order.

    Line feeds in a replacement become the line ending that the file uses.

    Args:
        source: the file's bytes.
        edits: byte spans in ``source`` and what replaces them.
        encoding: how replacements are encoded; a byte order mark is never added.
    """
    newline = newline_of(source)
    encoding = "utf-8" if encoding in ("utf-8-sig", "utf_8_sig") else encoding
    parts: list[bytes] = []
    at = 0
    for edit in edits:
        parts.append(source[at : edit.start_byte])
        parts.append(edit.replacement.replace("\n", newline).encode(encoding))
        at = edit.end_byte
    parts.append(source[at:])
    return b"".join(parts)


def newline_of(source: bytes) -> str:
    """The line ending of a file's first line; a line feed when it has none."""
    at = source.find(b"\n")
    if at < 0:
        return "\r" if b"\r" in source else "\n"
    return "\r\n" if source[at - 1 : at] == b"\r" else "\n"
