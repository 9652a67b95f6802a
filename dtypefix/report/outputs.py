"""Writing reports to files, several forms of the same run at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from dtypefix.errors import UserError
from dtypefix.report import Report, View, format_names, render

# Endings by which files of a format are known, where they are not the format's own name.
ENDINGS = {
    "jsonl": "json-lines", "ndjson": "json-lines", "htm": "html", "md": "markdown", "xml": "junit",
    "txt": "concise",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Output:
    """A file to write and the format it is to have."""

    format_name: str
    path: Path


def parse_output(text: str) -> Output:
    """``FORMAT:FILE``, or a ``FILE`` whose ending says the format.

    Raises:
        UserError: neither says a format.
    """
    names = format_names()
    prefix, colon, rest = text.partition(":")
    if colon and prefix in names:
        if not rest:
            raise UserError(f"--output-file {text}: a file's name is missing behind the colon")
        return Output(prefix, Path(rest))
    ending = Path(text).suffix.removeprefix(".").lower()
    found = ENDINGS.get(ending, ending)
    if found not in names:
        raise UserError(
            f"--output-file {text}: the name does not say the format; "
            f"write FORMAT:FILE with one of {', '.join(names)}"
        )
    return Output(found, Path(text))


def write_outputs(outputs: Sequence[Output], report: Report, view: View) -> None:
    """Write each file whole or not at all.

    Raises:
        UserError: a file cannot be written.
    """
    for output in outputs:
        with write_whole(output.path) as out:
            render(output.format_name, report, view, out)


@contextmanager
def write_whole(name: str | Path) -> Iterator[TextIO]:
    """A text stream to what becomes the file of that name once all of it is written.

    Raises:
        UserError: the file cannot be written.
    """
    path = Path(name)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with scratch.open("w", encoding="utf-8", newline="\n", errors="backslashreplace") as out:
            yield out
        os.replace(scratch, path)
    except OSError as error:
        raise UserError(f"--output-file {path}: {error.strerror or error}") from None
    finally:
        scratch.unlink(missing_ok=True)
