"""Run one probe in a process of its own: its time, its memory and its death are bounded and named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dtypefix.validate.verdict import Reason

POLL_SECONDS = 0.2
GRACE_SECONDS = 2.0
KILL_SECONDS = 10.0
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """What one process group may use: seconds of wall time, bytes of resident memory."""

    seconds: float = 600.0
    memory: int = 8 * GIB


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended. ``reason`` is None when it exited by itself with status 0."""

    reason: Reason | None
    detail: str
    seconds: float
    peak_memory: int


class Cancelled(Exception):
    """The run was interrupted; every process it had started is gone."""


class Runner:
    """Starts processes, each in its own group, and ends whole groups.

    One runner serves one validation; threads share it. After :meth:`cancel` nothing new starts and
    every running group is killed by the thread that waits for it.
    """

    def __init__(self) -> None:
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End every running group soon, and refuse to start another."""
        self._cancelled.set()

    def run(
        self,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        limits: Limits | None = None,
    ) -> Ended:
        """Run a command to its end, or to its limits.

        Args:
            command: the argument vector.
            log: the file that takes standard output and error.
            env: the whole environment, or None for this process's.
            cwd: where it runs.
            limits: time and memory; the default limits when None.

        Raises:
            Cancelled: :meth:`cancel` was called before or while it ran.
        """
        limits = limits or Limits()
        if self._cancelled.is_set():
            raise Cancelled
        started = time.monotonic()
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        peak, reason, detail = 0, None, ""
        try:
            while process.poll() is None:
                if self._cancelled.wait(POLL_SECONDS):
                    raise Cancelled
                memory = group_memory(process.pid)
                peak = max(peak, memory)
                if memory > limits.memory:
                    reason = Reason.MEMORY_LIMIT
                    detail = f"used more than {limits.memory / GIB:.1f} GiB"
                    break
                if time.monotonic() - started > limits.seconds:
                    reason, detail = Reason.TIME_LIMIT, f"ran longer than {limits.seconds:.0f} s"
                    break
        finally:
            kill_group(process)
        seconds = time.monotonic() - started
        if reason is None:
            reason, detail = explain_exit(process.returncode)
        return Ended(reason, detail, seconds, peak)


def explain_exit(status: int) -> tuple[Reason | None, str]:
    """What an exit status says: None for success, memory for an outside SIGKILL, a crash otherwise."""
    if status == 0:
        return None, ""
    if status > 0:
        return Reason.CRASH, f"exited with status {status}"
    name = signal.Signals(-status).name
    if -status == signal.SIGKILL:
        return Reason.MEMORY_LIMIT, "killed by SIGKILL, which is how the system ends a process for memory"
    return Reason.CRASH, f"ended by {name}"


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started, politely first; returns when none of them runs any more."""
    for number, patience in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            break
        deadline = time.monotonic() + patience
        while _runs(process) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS / 10)
        if not _runs(process):
            break
    process.wait()


def _runs(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is None or bool(group_members(process.pid))


def group_memory(group: int) -> int:
    """Resident bytes of the processes of a group; 0 where ``/proc`` does not exist."""
    return sum(group_members(group).values())


def group_members(group: int) -> dict[int, int]:
    """The running processes of a group with their resident bytes; none where ``/proc`` does not exist."""
    if not sys.platform.startswith("linux"):
        return {}
    page = os.sysconf("SC_PAGE_SIZE")
    found = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        try:
            # The command name may hold spaces and parentheses; what follows it may not.
            fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] != "Z":
                found[int(entry.name)] = int(fields[21]) * page
        except (OSError, ValueError, IndexError):
            continue
    return found
