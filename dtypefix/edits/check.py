"""Is the edited file still the same program outside the edited spans?"""

from __future__ import annotations

import ast
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
    """Maps offsets of the old file to offsets of the new one."""

    def __init__(self, edits: Sequence[Edit], encoding: str, newline: str) -> None:
        self.edits = edits
        self.sizes = [len(e.replacement.replace("\n", newline).encode(encoding)) for e in edits]

    def start(self, offset: int) -> int:
        """Where a node that starts at ``offset`` starts: behind anything inserted there."""
        shift = 0
        for edit, size in zip(self.edits, self.sizes, strict=True):
            if edit.end_byte <= offset:
                shift += size - (edit.end_byte - edit.start_byte)
        return offset + shift

    def end(self, offset: int) -> int:
        """Where a node that ends at ``offset`` ends: before anything inserted there."""
        shift = 0
        for edit, size in zip(self.edits, self.sizes, strict=True):
            if edit.end_byte <= offset and not (edit.start_byte == edit.end_byte == offset):
                shift += size - (edit.end_byte - edit.start_byte)
        return offset + shift

    def insertion_length(self, offset: int) -> int:
        """How much is inserted exactly at ``offset``."""
        return sum(
            size
            for edit, size in zip(self.edits, self.sizes, strict=True)
            if edit.start_byte == edit.end_byte == offset
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
        if any(e.start_byte < end and start < e.end_byte and not _inside(e, start, end) for e in edits):
            continue
        if any(e.start_byte <= start and end <= e.end_byte and e.start_byte < e.end_byte for e in edits):
            continue
        starts = {shift.start(start), shift.start(start) - shift.insertion_length(start)}
        ends = {shift.end(end), shift.end(end) + shift.insertion_length(end)}
        if not any((kind, s, e) in there for s in starts for e in ends):
            line, column = old.position(start)
            return f"the edit would change the syntax at {line}:{column}, outside the edited span"
    return None


def _inside(edit: Edit, start: int, end: int) -> bool:
    return start <= edit.start_byte and edit.end_byte <= end
