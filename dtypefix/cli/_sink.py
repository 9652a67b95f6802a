"""What becomes of the repaired text of each file: written, printed as a diff, or only counted."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dtypefix.errors import UserError
from dtypefix.findings import Finding, Skipped
from dtypefix.sources.target import Target

if TYPE_CHECKING:
    from dtypefix.edits.fix_file import FixedFile


@dataclass(frozen=True)
class Outcome:
    """What rewriting one file came to once its text was, or was not, put where it belongs.

    ``text`` is what the remaining findings point into, where that is not what lies on disk.
    """

    path: str
    changed: bool
    fixed: tuple[Finding, ...]
    remaining: tuple[Finding, ...]
    suppressed: tuple[Finding, ...]
    deferred: tuple[Finding, ...]
    skipped: Skipped | None
    text: bytes | None = None


class Sink:
    """Counts what would change and writes nothing."""

    shows_report = True

    def take(self, result: FixedFile, file: Path) -> Outcome:
        """Deal with the repaired text of ``file``; a file that cannot be written counts as skipped."""
        skipped = result.remaining.skipped or result.problem
        changed = skipped is None and result.after != result.before
        if changed:
            try:
                self._put(result, file)
            except BrokenPipeError:  # the reader of standard output has gone
                raise
            except OSError as error:
                skipped = Skipped(result.path, f"cannot be written: {error.strerror or error}")
            except UserError as error:
                skipped = Skipped(result.path, str(error))
        elif skipped is None:
            self._unchanged(result)
        written = changed and skipped is None
        # What could not be written lies on disk as it was found, and that is what is reported.
        there = result.remaining if written or result.original is None else result.original
        return Outcome(
            path=result.path,
            changed=written,
            fixed=result.fixed if written else (),
            remaining=there.findings,
            suppressed=there.suppressed,
            deferred=result.deferred if written else (),
            skipped=skipped,
            text=result.after if written else None,
        )

    def _put(self, result: FixedFile, file: Path) -> None:
        """Put a changed text where it belongs."""

    def _unchanged(self, result: FixedFile) -> None:
        """Deal with a file that has nothing to change."""


class InPlace(Sink):
    """Writes each file back."""

    def _put(self, result: FixedFile, file: Path) -> None:
        from dtypefix.edits.write import write_file

        write_file(file, result.before, result.after)


class Copy(Sink):
    """Writes each file into a copy of the tree it comes from."""

    def __init__(self, root: Path, copy: Path) -> None:
        self._root = root
        self._copy = copy

    def _put(self, result: FixedFile, file: Path) -> None:
        from dtypefix.edits.write import write_file

        write_file(self._copy / file.relative_to(self._root), result.before, result.after)


class Patch(Sink):
    """Collects the changes as a patch, for a file."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self.text = b""

    def _put(self, result: FixedFile, file: Path) -> None:
        from dtypefix.report.diff import unified_diff

        self.text += b"".join(unified_diff(_name(file, self._base), result.before, result.after))


class Filter(Sink):
    """Writes the text that came on standard input, repaired, to standard output."""

    shows_report = False

    def _put(self, result: FixedFile, file: Path) -> None:
        sys.stdout.buffer.write(result.after)

    def _unchanged(self, result: FixedFile) -> None:
        sys.stdout.buffer.write(result.before)


class Diff(Sink):
    """Prints each change as a diff, its paths relative to where ``git apply`` takes them."""

    shows_report = False

    def __init__(self, base: Path) -> None:
        from dtypefix.report.paint import painter, wants_colour

        self._base = base
        self._paint = painter(sys.stdout) if wants_colour(sys.stdout) else None

    def _put(self, result: FixedFile, file: Path) -> None:
        from dtypefix.report.diff import style_of, unified_diff

        for line in unified_diff(_name(file, self._base), result.before, result.after):
            style = style_of(line)
            if self._paint is None or style is None:
                sys.stdout.buffer.write(line)
            else:
                painted = self._paint(line.rstrip(b"\r\n").decode("utf-8", "replace"), style)
                sys.stdout.buffer.write(painted.encode() + b"\n")


def _name(file: Path, base: Path) -> bytes:
    return os.fsencode(os.path.relpath(file, base).replace(os.sep, "/"))


@contextmanager
def sink_for(
    target: Target, *, diff: bool, check: bool, patch: Path | None, output: Path | None
) -> Iterator[Sink]:
    """The sink that the options name.

    Raises:
        UserError: the files are not the person's to change, or ``output`` cannot be made.
    """
    if output is not None:
        with _copy_of(target, output) as copy:
            yield Copy(target.root, copy)
    elif diff:
        yield Diff(_patch_base(target))
    elif patch is not None:
        collected = Patch(_patch_base(target))
        yield collected
        _write_patch(patch, collected.text)
    elif check:
        yield Sink()
    elif target.kind == "stdin":
        yield Filter()
    elif target.read_only:
        also = " or --output DIR" if target.kind == "release" else ""
        instead = f"--diff, --check, --patch FILE{also}"
        raise UserError(f"{target.label} is not yours to change in place: use {instead}")
    else:
        yield InPlace()


def _patch_base(target: Target) -> Path:
    return target.root if target.read_only else target.checkout or target.root


def _write_patch(file: Path, text: bytes) -> None:
    from dtypefix.edits.write import write_whole

    try:
        write_whole(file, text)
    except OSError as error:
        raise UserError(f"--patch {file}: cannot be written: {error.strerror}") from None


@contextmanager
def _copy_of(target: Target, output: Path) -> Iterator[Path]:
    """A copy of a release, moved to ``output`` once all of it is written."""
    if target.kind != "release":
        raise UserError(
            "--output makes a repaired copy of a release; for your own files use rewrite, or --diff"
        )
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError(f"--output {output}: exists and is not an empty folder")
    output = output.absolute()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent)
    except OSError as error:
        raise UserError(f"--output {output}: cannot be written: {error.strerror}") from None
    with scratch as folder:
        copy = Path(folder, "copy")
        shutil.copytree(target.root, copy)
        yield copy
        if output.exists():
            output.rmdir()
        copy.rename(output)
