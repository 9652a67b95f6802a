"""Fitting text to the width of a terminal."""

from __future__ import annotations

import re
from typing import TextIO

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_NARROWEST = 40


def width_of(out: TextIO) -> int | None:
    """How many columns ``out`` has, or None where it is no terminal and lines may be of any length."""
    if not out.isatty():
        return None
    import shutil  # a pipe has no width to ask for

    return max(shutil.get_terminal_size().columns, _NARROWEST)


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """``text`` broken between words to fit ``width`` columns, its further lines indented.

    Colour does not count, and a word longer than a line stays whole so that a path can still be clicked
    and copied.
    """
    if width is None or len(plain(text)) <= width:
        return [text]
    margin = text[: len(text) - len(text.lstrip(" "))]
    words = text[len(margin) :].split(" ")
    lines: list[str] = []
    current, used = margin + words[0], len(margin) + len(plain(words[0]))
    for word in words[1:]:
        size = len(plain(word))
        if used + 1 + size > width:
            lines.append(current)
            current, used = indent + word, len(indent) + size
        else:
            current, used = f"{current} {word}", used + 1 + size
    return [*lines, current]


def plain(text: str) -> str:
    """``text`` without colour."""
    return _ESCAPE.sub("", text)
