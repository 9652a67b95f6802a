"""One side of a comparison: a release, a file or folder, or a git revision."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dtypefix.compare.revision import commit_of, lay_out
from dtypefix.errors import UserError
from dtypefix.sources.target import package_roots
from dtypefix.sources.targets import is_release


@dataclass(frozen=True, slots=True)
class Side:
    """What to read for one side.

    ``argument`` is what ``scan`` would be given and ``root`` what paths are relative to, so that the same
    file has the same path on both sides; None means that the argument is a release and has its own.
    """

    label: str
    argument: str
    root: Path | None


@contextmanager
def side(argument: str, here: Path) -> Iterator[Side]:
    """What an argument of ``compare`` names; a revision's files are there as long as the context is.

    Raises:
        UserError: it names nothing.
    """
    if is_release(argument):
        yield Side(argument, argument, None)
        return
    path = Path(os.path.normpath(here / argument))
    if path.exists():
        yield Side(argument, str(path), _root_of(path))
        return
    commit = commit_of(argument, here)
    if commit is None:
        raise UserError(f"{argument}: no such path, git revision or release (vllm==0.33.0)")
    with tempfile.TemporaryDirectory(prefix="dtypefix-revision-") as scratch:
        folder = Path(scratch).resolve()
        lay_out(commit, here, folder)
        yield Side(argument, str(folder), folder)


def _root_of(path: Path) -> Path:
    """The folder that holds the package which ``path`` is or lies in, or else the folder itself."""
    inside = path / "__init__.py" if path.is_dir() else path
    roots = package_roots((inside,))
    return roots[0] if roots else inside.parent
