"""What changed in a git checkout: since a revision, or in what is staged for the next commit."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dtypefix.errors import UserError
from dtypefix.findings import Finding
from dtypefix.sources.git import ask, index_of_hook, top_of
from dtypefix.sources.target import printable

_HUNK = re.compile(rb"@@ -\d+(?:,\d+)? \+(?P<start>\d+)(?:,(?P<count>\d+))? @@")
_WHOLE = (range(1, sys.maxsize),)
_DIFF = (
    *("diff", "--raw", "-z", "--patch", "--unified=0", "--inter-hunk-context=0", "--find-renames", "--text"),
    *("--no-color", "--no-ext-diff", "--no-textconv", "--diff-filter=ACMR"),
)
_PYTHON = ("--", "*.py")


@dataclass(frozen=True)
class Changes:
    """The changed lines of each changed file, by its real path."""

    lines: Mapping[str, tuple[range, ...]]

    def concern(self, finding: Finding, file: Path, root: Path) -> bool:
        """Whether a finding in ``file`` lies in a change, or a step of its evidence does.

        Paths of evidence are relative to ``root``.
        """
        span = finding.span
        return self._touch(file, span.line, span.end_line) or any(
            self._touch(root / step.path, step.line, step.line) for step in finding.evidence
        )

    def _touch(self, file: Path, first: int, last: int) -> bool:
        return any(
            first < lines.stop and lines.start <= last for lines in self.lines.get(os.path.realpath(file), ())
        )


def checkout_of(directory: Path, option: str) -> Path:
    """The top of the checkout around a directory.

    Raises:
        UserError: there is none, or no git; ``option`` is what needed it.
    """
    top = top_of(directory)
    if top is None:
        raise UserError(f"{option} needs git and a checkout around {printable(str(directory))}")
    return top


def since(checkout: Path, revision: str) -> Changes:
    """What the work tree changed since it left ``revision``, untracked files included.

    That is since the merge base, or since the revision itself where history has none: in a shallow clone.

    Raises:
        UserError: git does not know the revision.
    """
    commit = ask(checkout, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit is None:
        raise UserError(
            f"--diff-base {printable(revision)}: git knows no such revision here; in a shallow clone fetch "
            f"it first: `git fetch --depth=1 origin {printable(revision.removeprefix('origin/'))}`"
        )
    wanted = os.fsdecode(commit.strip())
    base = ask(checkout, "merge-base", "HEAD", wanted)
    found = _diff(checkout, os.fsdecode(base.strip()) if base else wanted)
    untracked = ask(checkout, "ls-files", "--others", "--exclude-standard", "-z", *_PYTHON) or b""
    for name in filter(None, untracked.split(b"\0")):
        found[_path(checkout, name)] = _WHOLE
    return Changes(found)


class Staged:
    """What is staged for the next commit of a checkout."""

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout
        self._index = index_of_hook(checkout)

    def changes(self) -> Changes:
        """The lines that the next commit would change."""
        return Changes(_diff(self._checkout, "--cached", index=self._index))

    def sources(self) -> dict[Path, bytes | None]:
        """Every Python file in the index, with its staged bytes where the work tree has others."""
        differing = ask(self._checkout, "diff", "--name-only", "-z", *_PYTHON, index=self._index) or b""
        listed = ask(self._checkout, "ls-files", "--stage", "-z", *_PYTHON, index=self._index) or b""
        names = set(filter(None, differing.split(b"\0")))
        found: dict[Path, bytes | None] = {}
        blobs: dict[bytes, bytes] = {}
        for entry in filter(None, listed.split(b"\0")):
            about, _, name = entry.partition(b"\t")
            mode, blob, stage = about.split()
            if mode.startswith(b"100") and stage == b"0":
                found[self._checkout / os.fsdecode(name)] = None
                if name in names:
                    blobs[name] = blob
        contents = self._contents(list(blobs.values()))
        found.update({self._checkout / os.fsdecode(name): contents[blob] for name, blob in blobs.items()})
        return found

    def _contents(self, blobs: list[bytes]) -> dict[bytes, bytes]:
        out = ask(self._checkout, "cat-file", "--batch", input_text=b"\n".join([*blobs, b""])) or b""
        contents: dict[bytes, bytes] = {}
        at = 0
        for blob in blobs:
            end = out.index(b"\n", at)
            size = int(out[at:end].split()[2])
            contents[blob] = out[end + 1 : end + 1 + size]
            at = end + 1 + size + 1
        return contents


def _diff(checkout: Path, against: str, *, index: str | None = None) -> dict[str, tuple[range, ...]]:
    out = ask(checkout, *_DIFF, against, *_PYTHON, index=index)
    if out is None:
        raise UserError(f"git cannot compare {printable(str(checkout))} with {against}")
    # The raw list comes first and names the files as they are; the patch below it has them in its order.
    raw, _, patch = out.partition(b"\0\0")
    sections = re.split(rb"^diff --git .*\n", patch, flags=re.MULTILINE)[1:]
    return {
        _path(checkout, name): tuple(_hunks(section))
        for name, section in zip(_names(raw), sections, strict=True)
    }


def _names(raw: bytes) -> Iterator[bytes]:
    fields = iter(filter(None, raw.split(b"\0")))
    for about in fields:
        name = next(fields)
        # A renamed file is listed with its old name first.
        yield next(fields) if about.split()[-1].startswith((b"R", b"C")) else name


def _hunks(section: bytes) -> Iterator[range]:
    for line in section.split(b"\n"):
        match = _HUNK.match(line)
        if match:
            start, count = int(match["start"]), int(match["count"] or 1)
            # Where lines only went away, the two around the gap are what changed.
            yield range(start, start + count) if count else range(start, start + 2)


def _path(checkout: Path, name: bytes) -> str:
    return os.path.realpath(checkout / os.fsdecode(name))
