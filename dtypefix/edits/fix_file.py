"""Fixing one file: rounds of edits until nothing is left to do, each checked before it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from dtypefix.analysis.module import Module
from dtypefix.edits import check, compose
from dtypefix.edits.imports import orphaned_import_edits
from dtypefix.findings import Edit, FileResult, Finding, Skipped

ROUNDS = 10
Accept = Callable[[Finding, bytes], bool]


@dataclass(frozen=True, slots=True)
class FixedFile:
    """What fixing one file came to.

    ``after`` equals ``before`` when nothing was fixed. ``remaining`` is the result of the last
    examination, of ``after``, and ``original`` that of the first, of ``before``; ``deferred`` are
    fixes that were left because they overlap others or because the rounds ran out; ``problem`` says
    why the file was left as it was.
    """

    path: str
    before: bytes
    after: bytes
    fixed: tuple[Finding, ...]
    remaining: FileResult
    deferred: tuple[Finding, ...] = ()
    problem: Skipped | None = None
    original: FileResult | None = None


def fix_file(
    path: str,
    source: bytes,
    examine: Callable[[bytes], FileResult],
    applicable: Collection[str],
    accept: Accept | None = None,
    first: FileResult | None = None,
) -> FixedFile:
    """Apply the fixes of one file in memory.

    Notes are never applied. After the last round the file must parse, differ only where it was
    edited, and have no applicable fix left; otherwise it is given back as it was.

    Args:
        path: how the file is named in reports.
        source: its bytes.
        examine: runs the rules over a version of the file.
        applicable: the applicabilities to apply, ``{"safe"}`` or ``{"safe", "unsafe"}``.
        accept: asked of each fix, with the file as it then is; one that is declined stays a finding.
        first: what examining ``source`` gave, where that is known.
    """
    first = current = examine(source) if first is None else first
    text = source
    fixed: list[Finding] = []
    deferred: list[Finding] = []
    declined: set[tuple[str, str, str]] = set()
    for _ in range(ROUNDS):
        todo = [f for f in fixable(current, applicable) if _key(f) not in declined]
        chosen, deferred = compose.choose(todo)
        if accept is not None:
            offered, chosen = chosen, [f for f in chosen if accept(f, text)]
            declined.update(_key(f) for f in offered if f not in chosen)
            if not chosen and deferred:
                continue
        if not chosen:
            break
        edits = compose.edits_of(chosen)
        after, problem = _edited(path, text, edits)
        if problem is None:
            result = examine(after)
            if result.skipped is not None:
                problem = f"the edited file could not be examined: {result.skipped.reason}"
            elif _repeats(chosen, current, result):
                problem = f"the fix for {chosen[0].rule} does not settle its own finding"
        if problem is not None:
            left = Skipped(path, f"left as it was: {problem}")
            return FixedFile(path, source, source, (), first, problem=left, original=first)
        text, current = after, result
        fixed.extend(chosen)
    else:
        deferred = [f for f in fixable(current, applicable) if _key(f) not in declined]
    return FixedFile(path, source, text, tuple(fixed), current, tuple(deferred), original=first)


def fixable(result: FileResult, applicable: Collection[str]) -> list[Finding]:
    """The findings of a file whose fix is to be applied."""
    return [f for f in result.findings if f.counts and f.fix and f.fix.applicability in applicable]


def _edited(path: str, source: bytes, edits: list[Edit]) -> tuple[bytes, str | None]:
    """The file with the edits, and without imports that they left unused, or what is wrong with it."""
    old = Module(path, source)
    after = compose.apply(source, edits, old.encoding)
    problem = check.problem_with(path, source, after, edits)
    if problem is not None:
        return source, problem
    new = Module(path, after)
    cleanup = orphaned_import_edits(old, new)
    if not cleanup:
        return after, None
    cleaned = compose.apply(after, cleanup, new.encoding)
    return cleaned, check.problem_with(path, after, cleaned, cleanup)


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.rule, finding.symbol, finding.code


def _repeats(chosen: list[Finding], before: FileResult, after: FileResult) -> bool:
    """Whether a finding that was just fixed is still there."""
    fixed = Counter(map(_key, chosen))
    was = Counter(_key(f) for f in before.findings if f.counts)
    now = Counter(_key(f) for f in after.findings if f.counts)
    return any(now[key] > was[key] - count for key, count in fixed.items())
