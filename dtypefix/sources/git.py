"""Asking git, without the surprises of a person's settings or of the hook that one runs in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_OF_ANOTHER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX")


def ask(
    directory: Path, *arguments: str, index: str | None = None, input_text: bytes | None = None
) -> bytes | None:
    """What ``git`` prints in a directory, or None where it fails or is not installed.

    ``index`` is the index file to read instead of the repository's own.
    """
    # A hook runs with GIT_DIR and GIT_INDEX_FILE of the outer repository, useless elsewhere.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(_OF_ANOTHER)}
    if index is not None:
        environment["GIT_INDEX_FILE"] = index
    try:
        done = subprocess.run(
            ["git", "-C", os.fspath(directory), *arguments],
            capture_output=True,
            env=environment,
            check=False,
            input=input_text,
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def top_of(directory: Path) -> Path | None:
    """The top of the checkout around ``directory``, spelled as ``directory`` is; None outside one."""
    up = ask(directory, "rev-parse", "--show-cdup")
    return None if up is None else Path(os.path.normpath(directory / os.fsdecode(up.strip(b"\n"))))


def index_of_hook(checkout: Path) -> str | None:
    """The index that the commit under way goes through, when run in a hook of this very checkout.

    ``git commit FILE`` and ``git commit -a`` build the commit in an index of their own.
    """
    index = os.environ.get("GIT_INDEX_FILE")
    folder = ask(checkout, "rev-parse", "--absolute-git-dir")
    if index is None or folder is None:
        return None
    index = os.path.abspath(index)
    inside = os.path.realpath(os.path.dirname(index)) == os.path.realpath(os.fsdecode(folder.strip(b"\n")))
    return index if inside else None
