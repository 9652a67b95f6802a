"""Pieces of source code as the HTML report shows them: highlighted, with marks and numbered steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dtypefix.findings import Evidence, Finding
from dtypefix.report.model import Report
from dtypefix.report.source import SourceText

CONTEXT = 3
LONGEST = 20  # lines of a finding that are shown before the rest is left out


@dataclass(frozen=True, slots=True)
class Token:
    """A stretch of code of one kind; ``style`` is pygments' short name of the kind."""

    text: str
    style: str
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A line of code, or a gap between two stretches of lines where ``number`` is 0."""

    number: int
    tokens: tuple[Token, ...] = ()
    steps: tuple[tuple[int, str], ...] = ()
    is_finding: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """The lines of one file that a finding's evidence names."""

    path: str
    rows: tuple[Row, ...]
    absent: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Highlighted:
    """The text of a file as tokens by line."""

    source: SourceText

    @cached_property
    def lines(self) -> list[list[Token]]:
        """The tokens of each line, line endings left out."""
        from pygments.lexers.python import PythonLexer
        from pygments.token import STANDARD_TYPES

        lexer: Any = PythonLexer(stripnl=False, ensurenl=False)
        lines: list[list[Token]] = [[]]
        for kind, value in lexer.get_tokens("\n".join(self.source.lines)):
            style = STANDARD_TYPES.get(kind, "")
            for index, part in enumerate(value.split("\n")):
                if index:
                    lines.append([])
                if part:
                    lines[-1].append(Token(part, style))
        return lines

    def line(self, number: int, marked: tuple[int, int] | None = None) -> tuple[Token, ...]:
        """The tokens of a line from 1, those between two columns from 0 marked."""
        tokens = self.lines[number - 1] if number <= len(self.lines) else []
        return tuple(tokens if marked is None else _marked(tokens, *marked))


def _marked(tokens: Iterable[Token], start: int, end: int) -> Iterable[Token]:
    at = 0
    for token in tokens:
        a, b = (min(max(column - at, 0), len(token.text)) for column in (start, end))
        at += len(token.text)
        for text, inside in ((token.text[:a], False), (token.text[a:b], True), (token.text[b:], False)):
            if text:
                yield Token(text, token.style, inside)


class CodeViews:
    """Makes the panels of a report's findings; each file is read and highlighted once."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._files: dict[str, Highlighted | None] = {}

    def panels(self, finding: Finding) -> list[Panel]:
        """The code of a finding: a panel per file, in the order in which the evidence reaches it."""
        steps: dict[str, list[tuple[int, Evidence]]] = {}
        for number, step in enumerate(finding.evidence, 1):
            steps.setdefault(step.path, []).append((number, step))
        steps.setdefault(finding.path, [])
        return [self._panel(finding, path, numbered) for path, numbered in steps.items()]

    def _panel(self, finding: Finding, path: str, numbered: Sequence[tuple[int, Evidence]]) -> Panel:
        file = self._file(path)
        if file is None:
            return Panel(path, (), tuple((number, step.text) for number, step in numbered))
        length = len(file.source.lines)
        own = range(0)
        if path == finding.path:
            own = range(finding.span.line, min(finding.span.end_line, finding.span.line + LONGEST) + 1)
        centres = {*own, *(step.line for _, step in numbered)}
        shown = {
            line
            for centre in centres
            for line in range(centre - CONTEXT, centre + CONTEXT + 1)
            if 0 < line <= length
        }
        rows: list[Row] = []
        for number in sorted(shown):
            if rows and number > rows[-1].number + 1:
                rows.append(Row(0))
            here = tuple((index, step.text) for index, step in numbered if step.line == number)
            mark = _columns(finding, number, file.source) if number in own else None
            rows.append(Row(number, file.line(number, mark), here, number == own.start and bool(own)))
        absent = tuple((index, step.text) for index, step in numbered if not 0 < step.line <= length)
        return Panel(path, tuple(rows), absent)

    def _file(self, path: str) -> Highlighted | None:
        if path not in self._files:
            source = self._report.source(path)
            self._files[path] = None if source is None else Highlighted(source)
        return self._files[path]


def _columns(finding: Finding, number: int, source: SourceText) -> tuple[int, int]:
    """The columns from 0 that a finding covers in one of its lines, indentation left out."""
    text = source.line(number)
    span = finding.span
    start = span.column - 1 if number == span.line else len(text) - len(text.lstrip())
    return start, span.end_column - 1 if number == span.end_line else len(text)
