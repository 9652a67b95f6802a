"""Colour for terminals: rich's styles where they are wanted, untouched text everywhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

Paint = Callable[[str, str], str]


def painter(out: TextIO) -> Paint:
    """A function ``(text, style) -> text`` for what is written to ``out``.

    ``NO_COLOR`` turns colour off and ``FORCE_COLOR`` on; otherwise a terminal gets it and a pipe does not.
    """
    return _coloured() if wants_colour(out) else _plain


def wants_colour(out: TextIO) -> bool:
    """Whether text written to ``out`` is to be coloured."""
    name = getattr(out, "name", "")
    if os.environ.get("NO_COLOR") or (isinstance(name, str) and name and not name.startswith("<")):
        return False  # a file that was asked for by name is text for good
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return out.isatty() and os.environ.get("TERM") != "dumb"


def _plain(text: str, style: str) -> str:
    return text


def _coloured() -> Paint:
    # Imported late: a run in a pipe, a hook above all, has no use for rich.
    from rich.color import ColorSystem
    from rich.style import Style

    def paint(text: str, style: str) -> str:
        return Style.parse(style).render(text, color_system=ColorSystem.STANDARD)

    return paint
