"""Writing a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from dtypefix.errors import UserError


def write_file(path: Path, before: bytes, after: bytes) -> None:
    """Replace the content ``before`` of ``path`` by ``after``, keeping its mode.

    The new content is written beside the file and moved into its place. A link stays a link: the file
    it leads to is replaced.

    Raises:
        OSError: the file or its folder cannot be written; the file is then as it was.
        UserError: the file does not hold ``before`` any more.
    """
    real = Path(os.path.realpath(path))
    if not os.access(real, os.W_OK):
        raise PermissionError(13, "Permission denied")
    descriptor, name = tempfile.mkstemp(prefix=f".{real.name}.", suffix=".tmp", dir=real.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        shutil.copystat(real, name)
        os.utime(name)
        _keep_owner(real, name)
        if real.read_bytes() != before:
            raise UserError("changed by someone else while it was being rewritten; run again")
        os.replace(name, real)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Make ``path`` a file of that content, whether or not there is one yet.

    Raises:
        OSError: it cannot be written; what was there is then as it was.
    """
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as scratch:
        written = Path(scratch, "whole")
        written.write_bytes(content)
        os.replace(written, path)


def _keep_owner(real: Path, name: str) -> None:
    status = real.stat()
    if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.chown(name, status.st_uid, status.st_gid)
            os.chmod(name, status.st_mode)  # a change of owner clears set-id bits
