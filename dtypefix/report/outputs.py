"""Writing reports to files, several forms of the same run at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
        scratch = output.path.with_name(f".{output.path.name}.{os.getpid()}")
        try:
            with scratch.open("w", encoding="utf-8", newline="\n", errors="backslashreplace") as out:
                render(output.format_name, report, view, out)
            os.replace(scratch, output.path)
        except OSError as error:
            scratch.unlink(missing_ok=True)
            raise UserError(f"--output-file {output.path}: {error.strerror or error}") from None
