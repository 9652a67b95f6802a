"""What passes between the stages: findings, their evidence and their fixes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

Level = Literal["error", "warning", "note"]
Applicability = Literal["safe", "unsafe"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one file.

    Lines and columns count from 1, columns in code points; ``end_column`` is one past the last
    character. Bytes count from 0 in the file as it lies on disk, a byte order mark included.
    """

    start_byte: int
    end_byte: int
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """One step of the reasoning behind a finding: a place and what it shows."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the bytes ``start_byte:end_byte`` of the original file by ``replacement``."""

    start_byte: int
    end_byte: int
    replacement: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A repair: ``safe`` is applied by default, ``unsafe`` only when a person asks for it."""

    applicability: Applicability
    title: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One place whose dtype is decided by the wrong source.

    Exactly one of ``fix`` and ``unfixed_reason`` is set. ``fingerprint`` identifies the finding
    across line moves; ``code`` is the normalised text it is computed from.
    """

    rule: str
    group: str
    level: Level
    path: str
    span: Span
    symbol: str
    message: str
    evidence: tuple[Evidence, ...]
    code: str
    fix: Fix | None = None
    unfixed_reason: str | None = None
    fingerprint: str = ""

    @property
    def counts(self) -> bool:
        """Whether the finding makes a run fail: notes never do."""
        return self.level != "note"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that could not be examined or written, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileResult:
    """Everything one file yielded: ``findings`` and ``suppressed`` do not overlap."""

    path: str
    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    skipped: Skipped | None = None


def fingerprinted(findings: list[Finding]) -> list[Finding]:
    """Sort the findings of one file and give each its fingerprint.

    The fingerprint hashes rule, path, symbol, normalised code and an ordinal among equals, so a
    finding keeps it when lines above it come and go.
    """
    ordered = sorted(findings, key=lambda f: (f.span.start_byte, f.span.end_byte, f.rule))
    seen: dict[tuple[str, ...], int] = {}
    result = []
    for finding in ordered:
        key = (finding.rule, finding.path, finding.symbol, finding.code)
        ordinal = seen[key] = seen.get(key, -1) + 1
        digest = hashlib.sha256("\0".join((*key, str(ordinal))).encode()).hexdigest()[:16]
        result.append(replace(finding, fingerprint=digest))
    return result
