"""What a fix would make of the code: the lines it takes away and the lines it puts there."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dtypefix.edits import compose
from dtypefix.findings import Edit, Fix
from dtypefix.report.source import SourceText

Sign = Literal[" ", "-", "+", "…"]


@dataclass(frozen=True, slots=True)
class ChangedLine:
    """One line of a change: kept, taken away, added, or the gap between two places.

    ``number`` counts from 1 in the file as it is; an added line has the number of the line it follows.
    """

    sign: Sign
    number: int
    text: str


def changed_lines(source: SourceText, fix: Fix, context: int = 1) -> Iterator[ChangedLine]:
    """The lines that a fix changes, in order, with ``context`` lines around each place."""
    edits = sorted(fix.edits, key=lambda edit: (edit.start_byte, edit.end_byte))
    for index, (first, last, near) in enumerate(_places(source, edits, 2 * context)):
        if index:
            yield ChangedLine("…", 0, "")
        yield from _change(source, near, max(first - context, 1), min(last + context, len(source.lines)))


def _places(
    source: SourceText, edits: Sequence[Edit], reach: int
) -> Iterator[tuple[int, int, Sequence[Edit]]]:
    """First line, last line and edits of each run of edits at most ``reach`` lines apart."""
    near: list[Edit] = []
    first = last = 0
    for edit in edits:
        start, end = source.position(edit.start_byte)[0], source.position(edit.end_byte)[0]
        if near and start > last + reach:
            yield first, last, near
            near = []
        first, last = (min(first, start), max(last, end)) if near else (start, end)
        near = [*near, edit]
    if near:
        yield first, last, near


def _change(source: SourceText, edits: Sequence[Edit], first: int, last: int) -> Iterator[ChangedLine]:
    # Comparing only the lines around an edit keeps files of ten thousand lines quick.
    start, end = source.start_of(first), source.start_of(last + 1)
    moved = [replace(e, start_byte=e.start_byte - start, end_byte=e.end_byte - start) for e in edits]
    part = compose.apply(source.data[start:end], moved, source.encoding)
    old = source.lines[first - 1 : last]
    new = [line.decode(source.encoding, "replace").rstrip("\r\n") for line in part.splitlines(keepends=True)]
    for tag, a, a_end, b, b_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            for number in range(a, a_end):
                yield ChangedLine(" ", first + number, old[number])
            continue
        for number in range(a, a_end):
            yield ChangedLine("-", first + number, old[number])
        for number in range(b, b_end):
            yield ChangedLine("+", first + max(a_end - 1, 0), new[number])
