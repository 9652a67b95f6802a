"""Known findings, kept in a file so that only new ones are reported; the file is meant to shrink.

A finding is known by its rule, its path, the symbol it stands in and its normalised code, so moving it
within its function, or anything above it, changes nothing. Paths are relative to the file's folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path

from dtypefix.edits.write import write_whole
from dtypefix.errors import UserError
from dtypefix.findings import Finding, fingerprinted
from dtypefix.sources.target import display_path

SCHEMA = 1
DEFAULT_NAME = "dtypefix-baseline.json"


@dataclass(frozen=True, order=True)
class Entry:
    """One known finding."""

    path: str
    rule: str
    symbol: str
    code: str
    fingerprint: str


@dataclass(frozen=True)
class Match:
    """Findings held against a baseline: those it does not know, those it does, and what it knows too much.

    ``stale`` are entries of the files and rules looked at that nothing was found for.
    """

    new: tuple[Finding, ...]
    known: tuple[Finding, ...]
    entries: tuple[Entry, ...]
    stale: tuple[Entry, ...]


def entries_of(findings: Iterable[Finding], root: Path, base: Path) -> list[Entry]:
    """What a baseline in the folder ``base`` holds of findings whose paths are relative to ``root``."""
    return [entry for _, entry in _with_entries(findings, root, base)]


def _with_entries(findings: Iterable[Finding], root: Path, base: Path) -> list[tuple[Finding, Entry]]:
    pairs: list[tuple[Finding, Entry]] = []
    for path, group in groupby(sorted(findings, key=lambda f: f.path), key=lambda f: f.path):
        ordered = sorted(group, key=lambda f: (f.span.start_byte, f.span.end_byte, f.rule))
        seen = display_path(root / path, base)
        for finding, moved in zip(
            ordered, fingerprinted([replace(f, path=seen) for f in ordered]), strict=True
        ):
            entry = Entry(seen, finding.rule, finding.symbol, finding.code, moved.fingerprint)
            pairs.append((finding, entry))
    return pairs


def match(
    entries: Sequence[Entry],
    findings: Sequence[Finding],
    *,
    root: Path,
    base: Path,
    examined: Collection[str],
    rules: Collection[str],
) -> Match:
    """Hold findings against the entries of a baseline in the folder ``base``.

    Notes are left alone: a baseline holds what would make a run fail.

    Args:
        entries: the baseline.
        findings: what was found, in paths relative to ``root``.
        root: see above.
        base: the baseline's folder.
        examined: the files that were examined, as the findings name them.
        rules: the rules that ran.
    """
    known = {entry.fingerprint for entry in entries}
    pairs = _with_entries((finding for finding in findings if finding.counts), root, base)
    matched = {entry.fingerprint: id(finding) for finding, entry in pairs if entry.fingerprint in known}
    matched_findings = set(matched.values())
    looked_at = {display_path(root / path, base) for path in examined}
    stale = [
        entry
        for entry in entries
        if entry.fingerprint not in matched
        and entry.rule in rules
        and (entry.path in looked_at or not os.path.lexists(base / entry.path))
    ]
    return Match(
        new=tuple(finding for finding in findings if id(finding) not in matched_findings),
        known=tuple(finding for finding in findings if id(finding) in matched_findings),
        entries=tuple(entry for _, entry in pairs),
        stale=tuple(stale),
    )


def load(path: Path) -> list[Entry]:
    """The entries of a baseline file.

    Raises:
        UserError: there is no such file, or it is no baseline.
    """
    try:
        data = json.loads(path.read_bytes())
        if data["schema"] != SCHEMA:
            raise UserError(f"baseline {path}: schema {data['schema']} is not one that this version reads")
        return [Entry(**item) for item in data["findings"]]
    except FileNotFoundError:
        raise UserError(f"baseline {path}: no such file; `dtypefix baseline create` makes it") from None
    except OSError as error:
        raise UserError(f"baseline {path}: cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError) as error:
        raise UserError(f"baseline {path}: is no baseline: {error}") from None


def save(path: Path, entries: Iterable[Entry]) -> None:
    """Write a baseline file, whole or not at all, in an order that merges well.

    Raises:
        UserError: it cannot be written.
    """
    document = {"schema": SCHEMA, "findings": [asdict(entry) for entry in sorted(set(entries))]}
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise UserError(f"baseline {path}: cannot be written: {error.strerror}") from None
