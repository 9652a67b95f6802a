"""``.gitignore`` patterns applied to files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from dtypefix.errors import UserError

_FOLDER_NAME = re.compile(r"[\w-]+/?")
Matcher = Callable[[str], bool]


@cache
def matcher(patterns: tuple[str, ...]) -> Matcher:
    """A function that says whether patterns match a path, given with ``/`` and relative to their folder."""
    if all(_FOLDER_NAME.fullmatch(pattern) for pattern in patterns):
        # The default needs no more than this, and pathspec takes 20 ms to import.
        names = frozenset(pattern.rstrip("/") for pattern in patterns)
        return lambda path: not names.isdisjoint(path.split("/"))
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns).match_file


def check(patterns: Iterable[str], where: str) -> None:
    """See that each is a pattern.

    Raises:
        UserError: one is none; ``where`` says in it what was being read.
    """
    for pattern in patterns:
        try:
            matcher((pattern,))
            usable = bool(pattern.strip())
        except ValueError:
            usable = False
        if not usable:
            raise UserError(f"{where}: {pattern!r} is no pattern as of a .gitignore")


def relative(file: Path, base: Path) -> str:
    """``file`` as patterns of ``base`` see it: relative to it, or from the root where it lies elsewhere."""
    text = os.path.relpath(file, base).replace(os.sep, "/")
    return os.fspath(file).replace(os.sep, "/").lstrip("/") if text.startswith("../") else text


def excluded(file: Path, patterns: Sequence[str], base: Path, named: Path | None) -> bool:
    """Whether patterns leave out ``file``, found in the folder ``named`` that a person asked for.

    What matches the named folder itself leaves nothing out in it: the person asked for it.
    """
    path = relative(file, base)
    if not matcher(tuple(patterns))(path):
        return False
    if named is None:
        return True
    return matcher(_not_about(tuple(patterns), relative(named, base)))(path)


@cache
def _not_about(patterns: tuple[str, ...], folder: str) -> tuple[str, ...]:
    return tuple(pattern for pattern in patterns if not matcher((pattern,))(f"{folder}/"))
