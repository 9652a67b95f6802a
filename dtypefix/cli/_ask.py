"""Asking a person about each fix."""

from __future__ import annotations

import sys
from typing import TextIO

from dtypefix.findings import Finding
from dtypefix.report.change import changed_lines
from dtypefix.report.paint import painter
from dtypefix.report.source import SourceText
from dtypefix.report.words import fix_label, one_line, place_of, printable

QUESTION = "Apply it? [y]es, [n]o, [a]ll from here on, [s]kip this file, [q]uit: "
STYLES = {"-": "red", "+": "green", "…": "dim"}


class Interview:
    """Remembers the answers that hold for more than one fix.

    A fix is accepted with ``y``, declined with ``n``; ``a`` accepts it and all that follow, ``s`` declines
    it and the others of its file, ``q`` and the end of the input all that follow.
    """

    def __init__(self, answers: TextIO, out: TextIO) -> None:
        self._answers = answers
        self._out = out
        self._paint = painter(out)
        self._all = False
        self._skipped: str | None = None
        self.ended = False

    def accept(self, finding: Finding, source: bytes) -> bool:
        """Whether to apply the fix of a finding in a file that now reads ``source``."""
        if self.ended or finding.path == self._skipped:
            return False
        if self._all:
            return True
        self._show(finding, source)
        match self._answer():
            case "y":
                return True
            case "a":
                self._all = True
                return True
            case "s":
                self._skipped = finding.path
            case "q":
                self.ended = True
        return False

    def _answer(self) -> str:
        while True:
            self._out.write(QUESTION)
            self._out.flush()
            line = self._answers.readline()
            if not line:
                self._out.write("\n")
                return "q"
            answer = line.strip().lower()[:1]
            if answer and answer in "ynasq":
                return answer

    def _show(self, finding: Finding, source: bytes) -> None:
        assert finding.fix is not None
        head = (
            f"{self._paint(place_of(finding), 'bold')}: {finding.level} {self._paint(finding.rule, 'cyan')}"
        )
        self._out.write(f"\n{head}: {one_line(finding.message)}\n")
        for step in finding.evidence:
            self._out.write(f"    {one_line(step.path)}:{step.line}: {one_line(step.text)}\n")
        self._out.write(f"  {fix_label(finding)} {one_line(finding.fix.title)}\n")
        for line in changed_lines(SourceText(source), finding.fix):
            text = f"{line.sign} {printable(line.text)}"
            style = STYLES.get(line.sign)
            self._out.write(f"  {self._paint(text, style) if style else text}\n")


def on_terminal() -> Interview:
    """An interview on standard input and standard error, so that standard output stays the report."""
    return Interview(sys.stdin, sys.stderr)
