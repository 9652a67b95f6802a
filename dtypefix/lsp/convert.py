"""From findings to what the editor protocol speaks of.

The protocol counts columns in the units that client and server agree on, UTF-16 unless they agree on
others; pygls does the counting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lsprotocol import types
from pygls.uris import from_fs_path
from pygls.workspace import PositionCodec

from dtypefix.edits import compose
from dtypefix.findings import Edit, Evidence, Finding, Level
from dtypefix.report.source import SourceText
from dtypefix.report.words import repair_of

SOURCE = "dtypefix"
FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.{SOURCE}"
SEVERITIES: dict[Level, types.DiagnosticSeverity] = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
# What a hover has room for; the cases, which are code, stay on the page.
_SECTIONS = ("What it finds", "Why it is wrong", "What to write instead", "Fix safety")
_FENCE = re.compile(r"^```.*?^```\n?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Examined:
    """A version of a document and what was found in it; ``root`` is what evidence paths are relative to."""

    uri: str
    version: int | None
    source: SourceText
    findings: tuple[Finding, ...]
    root: Path

    @cached_property
    def lines(self) -> list[str]:
        """The lines as the protocol has them: with an ending, and one more past the last."""
        return [*(f"{line}\n" for line in self.source.lines), ""]


def range_of(examined: Examined, start: int, end: int, codec: PositionCodec) -> types.Range:
    """The range of a stretch of bytes in the client's units."""

    def position(offset: int) -> types.Position:
        line, column = examined.source.position(offset)
        return codec.position_to_client_units(examined.lines, types.Position(line - 1, column - 1))

    return types.Range(position(start), position(end))


def diagnostic(examined: Examined, finding: Finding, codec: PositionCodec) -> types.Diagnostic:
    """A finding as a diagnostic, its evidence as related places."""
    return types.Diagnostic(
        range=range_of(examined, finding.span.start_byte, finding.span.end_byte, codec),
        message=finding.message if finding.fix else f"{finding.message} ({finding.unfixed_reason})",
        severity=SEVERITIES[finding.level],
        code=finding.rule,
        source=SOURCE,
        related_information=[_related(examined.root, step) for step in finding.evidence],
        data=finding.fingerprint,
    )


def _related(root: Path, step: Evidence) -> types.DiagnosticRelatedInformation:
    place = types.Position(max(step.line - 1, 0), 0)
    uri = from_fs_path(str(root / step.path)) or ""
    return types.DiagnosticRelatedInformation(types.Location(uri, types.Range(place, place)), step.text)


def workspace_edit(examined: Examined, edits: Iterable[Edit], codec: PositionCodec) -> types.WorkspaceEdit:
    """Edits of a document, tied to the version that they were made for."""
    newline = compose.newline_of(examined.source.data)
    text_edits = [
        types.TextEdit(
            range_of(examined, edit.start_byte, edit.end_byte, codec),
            edit.replacement.replace("\n", newline),
        )
        for edit in edits
    ]
    identifier = types.OptionalVersionedTextDocumentIdentifier(uri=examined.uri, version=examined.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, text_edits)])


def quick_fix(
    examined: Examined, finding: Finding, codec: PositionCodec, diagnostics: Sequence[types.Diagnostic]
) -> types.CodeAction | None:
    """The action that applies a finding's fix; an unsafe one says so and is never the preferred one."""
    if finding.fix is None:
        return None
    safe = finding.fix.applicability == "safe"
    title = finding.fix.title[:1].upper() + finding.fix.title[1:]
    return types.CodeAction(
        title=f"dtypefix: {title}" + ("" if safe else " (unsafe: needs a review)"),
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[item for item in diagnostics if item.data == finding.fingerprint],
        is_preferred=safe,
        edit=workspace_edit(examined, finding.fix.edits, codec),
    )


def fix_all(examined: Examined, codec: PositionCodec) -> types.CodeAction | None:
    """The action that applies all safe fixes that do not overlap, as ``rewrite`` would in its first round."""
    safe = [f for f in examined.findings if f.counts and f.fix and f.fix.applicability == "safe"]
    chosen, _ = compose.choose(safe)
    if not chosen:
        return None
    return types.CodeAction(
        title="dtypefix: apply all safe fixes",
        kind=FIX_ALL,
        edit=workspace_edit(examined, compose.edits_of(chosen), codec),
    )


def hover_text(finding: Finding, page: str) -> str:
    """What a finding says, why, and what its rule's page says of it, as Markdown."""
    steps = "".join(f"{number}. {step.text}\n" for number, step in enumerate(finding.evidence, 1))
    parts = [f"**{finding.rule}**: {finding.message}", steps, f"*Fix*: {repair_of(finding)}"]
    bare = _FENCE.sub("", page)
    for name in _SECTIONS:
        section = re.search(rf"^## {re.escape(name)}\n+(.+?)(?=^## |\Z)", bare, re.MULTILINE | re.DOTALL)
        if section and section[1].strip():
            parts.append(f"### {name}\n\n{section[1].strip()}")
    return "\n\n".join(part for part in parts if part)
