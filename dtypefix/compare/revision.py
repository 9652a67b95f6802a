"""The Python files of a git revision, laid out in a folder."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from dtypefix.errors import UserError

_WANTED = (b".py", b".toml")


def commit_of(revision: str, here: Path) -> str | None:
    """The hash of the commit that a revision names in the checkout around ``here``, or None."""
    if revision.startswith("-"):
        return None
    found = _git(here, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    return found.decode().strip() if found else None


def lay_out(commit: str, here: Path, folder: Path) -> None:
    """Write the Python and TOML files of a commit to ``folder``, as a checkout would.

    It works in shallow clones and worktrees and leaves the checkout and its index alone.

    Raises:
        UserError: git cannot give the files, as where a partial clone is out of reach of its server.
    """
    listing = _git(here, "ls-tree", "-r", "-z", "--full-tree", "--name-only", commit) or b""
    names = [name for name in listing.split(b"\0") if name.endswith(_WANTED)]
    top = _git(here, "rev-parse", "--show-toplevel")
    if top is None:
        raise UserError(f"{here}: no git checkout")
    checkout = Path(os.fsdecode(top.rstrip(b"\n")))
    with tempfile.TemporaryDirectory(prefix="dtypefix-index-") as scratch:
        environment = {**os.environ, "GIT_INDEX_FILE": str(Path(scratch, "index"))}
        prefix = f"--prefix={folder}{os.sep}"
        for command, given in (
            (("read-tree", commit), b""),
            (("checkout-index", "-q", "-z", "--stdin", prefix), b"\0".join(names)),
        ):
            done = subprocess.run(
                ["git", "-C", str(checkout), *command],
                input=given,
                capture_output=True,
                check=False,
                env=environment,
            )
            if done.returncode:
                reason = done.stderr.decode(errors="replace").strip().splitlines() or ["git failed"]
                raise UserError(f"{commit[:12]}: {reason[0]}")


def _git(here: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
