"""Changes as a unified diff that ``git apply`` and ``patch -p1`` take."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

NO_NEWLINE = b"\\ No newline at end of file\n"
STYLES = {b"+": "green", b"-": "red", b"@": "cyan", b"d": "bold"}
PLAIN_NAME = re.compile(rb"[^\x00-\x1f\"\\\x7f-\xff]+")


def unified_diff(path: bytes, before: bytes, after: bytes) -> Iterator[bytes]:
    """The lines of a diff of one file, each with its line ending; nothing if nothing changed.

    ``path`` is the name as on disk, relative to where the diff is to be applied. Only a line feed ends
    a line, so that carriage returns and form feeds are content, as git sees them.
    """
    if before == after:
        return
    old, new = _name(b"a/" + path), _name(b"b/" + path)
    yield b"diff --git %b %b\n" % (old, new)
    # git ends a name that holds a space with a tab, without which patch would cut it short.
    tab = b"\t" if b" " in path else b""
    lines = difflib.diff_bytes(
        difflib.unified_diff, _lines(before), _lines(after), b"\0a", b"\0b", lineterm=b"\n"
    )
    for line in lines:
        if line.startswith(b"--- \0a"):
            yield b"--- %b%b\n" % (old, tab)
        elif line.startswith(b"+++ \0b"):
            yield b"+++ %b%b\n" % (new, tab)
        elif line.endswith(b"\n"):
            yield line
        else:
            yield line + b"\n"
            yield NO_NEWLINE


def style_of(line: bytes) -> str | None:
    """The style a diff line is painted in on a terminal."""
    return "bold" if line.startswith((b"---", b"+++")) else STYLES.get(line[:1])


def _lines(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _name(name: bytes) -> bytes:
    """A file name as git writes it in a diff: quoted like a C string when it holds unusual bytes."""
    if PLAIN_NAME.fullmatch(name):
        return name
    escaped = b"".join(
        b"\\" + bytes([byte]) if byte in b'"\\' else bytes([byte]) if 32 <= byte < 127 else b"\\%03o" % byte
        for byte in name
    )
    return b'"' + escaped + b'"'
