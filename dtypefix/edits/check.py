"""Is the edited file still the same program outside the edited spans?"""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from dtypefix.analysis.module import Module
from dtypefix.analysis.walking import walk
from dtypefix.edits.compose import newline_of
from dtypefix.findings import Edit

_Place = tuple[str, int, int]


def _places(module: Module) -> set[_Place]:
    found: set[_Place] = set()
    for node in walk(module.tree):
        if isinstance(node, (ast.stmt, ast.expr, ast.arg, ast.keyword, ast.alias, ast.ExceptHandler)):
            found.add((_kind(node), *module.byte_range(node)))
    return found


def _kind(node: ast.AST) -> str:
    """The node's type, with its operator: an edit may not change what an operand belongs to."""
    operator = getattr(node, "op", None) or next(iter(getattr(node, "ops", ())), None)
    name = type(node).__name__
    return f"{name} {type(operator).__name__}" if operator is not None else name


class _Shift:
    """Maps offsets of the old file to offsets of the new one; the edits are in order and do not overlap."""

    def __init__(self, edits: Sequence[Edit], encoding: str, newline: str) -> None:
        self.edits = edits
        self._starts = [edit.start_byte for edit in edits]
        self._ends = [edit.end_byte for edit in edits]
        self._inserted: dict[int, int] = {}
        grown = [0]
        for edit in edits:
            size = len(edit.replacement.replace("\n", newline).encode(encoding))
            grown.append(grown[-1] + size - (edit.end_byte - edit.start_byte))
            if edit.start_byte == edit.end_byte:
                self._inserted[edit.start_byte] = self._inserted.get(edit.start_byte, 0) + size
        self._grown = grown

    def start(self, offset: int) -> int:
        """Where a node that starts at ``offset`` starts: behind anything inserted there."""
        return offset + self._grown[bisect_right(self._ends, offset)]

    def end(self, offset: int) -> int:
        """Where a node that ends at ``offset`` ends: before anything inserted there."""
        return self.start(offset) - self.insertion_length(offset)

    def insertion_length(self, offset: int) -> int:
        """How much is inserted exactly at ``offset``."""
        return self._inserted.get(offset, 0)

    def touched(self, start: int, end: int) -> bool:
        """Whether an edit replaces a node, or a part of it and something outside it too."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end) - 1
        # Only the outer ones can reach beyond the node, and one that covers it is alone.
        return first <= last and any(
            not _inside(edit, start, end)
            or (edit.start_byte <= start and end <= edit.end_byte and edit.start_byte < edit.end_byte)
            for edit in (self.edits[first], self.edits[last])
        )


def problem_with(path: str, before: bytes, after: bytes, edits: Sequence[Edit]) -> str | None:
    """Why an edited file must not be written, or None when it may.

    The new text must parse, and every syntax node that no edit touches must stand in it at the
    place the edits moved it to, with the same type.

    Args:
        path: how the file is named in messages.
        before: the file's bytes.
        after: the bytes with ``edits`` applied.
        edits: the edits, in file order.
    """
    try:
        new = Module(path, after)
    except (SyntaxError, ValueError, RecursionError) as error:
        return f"the edited file would not parse ({error})"
    old = Module(path, before)
    encoding = "utf-8" if old.encoding == "utf-8-sig" else old.encoding
    shift = _Shift(edits, encoding, newline_of(before))
    there = _places(new)
    for kind, start, end in _places(old):
        if shift.touched(start, end):
            continue
        starts = {shift.start(start), shift.start(start) - shift.insertion_length(start)}
        ends = {shift.end(end), shift.end(end) + shift.insertion_length(end)}
        if not any((kind, s, e) in there for s in starts for e in ends):
            line, column = old.position(start)
            return f"the edit would change the syntax at {line}:{column}, outside the edited span"
    return None


def _inside(edit: Edit, start: int, end: int) -> bool:
    return start <= edit.start_byte and edit.end_byte <= end
