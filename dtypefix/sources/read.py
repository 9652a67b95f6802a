"""Reading one source file, with a reason a person can act on where that fails."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class Unreadable(Exception):
    """A file that cannot be read as Python source; the message says why."""


def read_source(path: Path) -> bytes:
    """The bytes of a Python file.

    Raises:
        Unreadable: there is no such file, it may not be read, is a directory or a device, or is binary.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unreadable("not a regular file")
            source = file.read()
    except FileNotFoundError:
        reason = "a link to nothing" if path.is_symlink() else "no such file"
        raise Unreadable(reason) from None
    except IsADirectoryError:
        raise Unreadable("not a regular file") from None
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None
    if b"\0" in source:
        raise Unreadable("a binary file, not Python source")
    return source
