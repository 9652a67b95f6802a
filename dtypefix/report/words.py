"""Small pieces of wording that several report formats share."""

from __future__ import annotations

from dtypefix.findings import Finding, Level

LEVEL_STYLES: dict[Level, str] = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}
FIX_STYLES = {"safe": "green", "unsafe": "magenta", "manual": "dim"}
KINDS = ("safe", "unsafe", "manual")


def kind_of(finding: Finding) -> str:
    """How a finding can be repaired: ``safe``, ``unsafe`` or ``manual``."""
    return finding.fix.applicability if finding.fix else "manual"


def fix_label(finding: Finding) -> str:
    """The tag behind a finding's message: ``[safe fix]``, ``[unsafe fix]`` or ``[manual]``."""
    return f"[{kind_of(finding)} fix]" if finding.fix else "[manual]"


def repair_of(finding: Finding) -> str:
    """What the fix does and how far it can be trusted, or why there is none."""
    if finding.fix:
        return f"{one_line(finding.fix.title)} ({finding.fix.applicability})"
    return f"none: {one_line(finding.unfixed_reason or '')}"


def place_of(finding: Finding) -> str:
    """Where a finding stands, as editors and terminals recognise it: ``path:line:column``."""
    return f"{one_line(finding.path)}:{finding.span.line}:{finding.span.column}"


def plural(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def one_line(text: str) -> str:
    """``text`` without line breaks and without control characters that a terminal would obey."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """``text`` with the characters escaped that would not show or that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
