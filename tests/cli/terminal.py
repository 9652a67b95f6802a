"""Runs a command on a terminal of a given width, as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path


def on_terminal(command: list[str], *, columns: int, cwd: Path, env: dict[str, str]) -> str:
    """What a command writes to a terminal of ``columns`` columns, its colours turned off."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    kept = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        command, cwd=cwd, env={**kept, "NO_COLOR": "1"}, stdout=theirs, stdin=subprocess.DEVNULL
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:  # Linux says so when the last writer has gone
        pass
    process.wait()
    os.close(ours)
    return written.decode().replace("\r\n", "\n")
