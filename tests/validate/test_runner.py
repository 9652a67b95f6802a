from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dtypefix.validate.runner import Cancelled, Limits, Runner, explain_exit
from dtypefix.validate.verdict import Reason

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

SLEEPER = "import os, pathlib, time; pathlib.Path({ready!r}).write_text(str(os.getpid())); time.sleep(600)"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_process_that_ends_by_itself_has_no_reason(tmp_path: Path) -> None:
    log = tmp_path / "log"
    ended = Runner().run(python("print('hello')"), log=log)
    assert ended.reason is None
    assert log.read_text() == "hello\n"


def test_a_hang_is_ended_at_the_time_limit(tmp_path: Path) -> None:
    ended = Runner().run(
        python("import time; time.sleep(600)"), log=tmp_path / "log", limits=Limits(seconds=0.3)
    )
    assert ended.reason is Reason.TIME_LIMIT


def test_a_hang_that_ignores_requests_is_killed(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    ended = Runner().run(python(code), log=tmp_path / "log", limits=Limits(seconds=1))
    assert ended.reason is Reason.TIME_LIMIT


@linux_only
def test_a_process_over_its_memory_is_ended(tmp_path: Path) -> None:
    code = "x = bytearray(300 << 20); import time; time.sleep(600)"
    ended = Runner().run(python(code), log=tmp_path / "log", limits=Limits(seconds=60, memory=100 << 20))
    assert ended.reason is Reason.MEMORY_LIMIT
    assert ended.peak_memory > 100 << 20


def test_a_crash_is_named_by_its_signal(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    ended = Runner().run(python(code), log=tmp_path / "log")
    assert (ended.reason, ended.detail) == (Reason.CRASH, "ended by SIGSEGV")


@pytest.mark.parametrize(
    ("status", "reason"),
    [(0, None), (1, Reason.CRASH), (-signal.SIGKILL, Reason.MEMORY_LIMIT), (-signal.SIGABRT, Reason.CRASH)],
)
def test_exit_statuses(status: int, reason: Reason | None) -> None:
    assert explain_exit(status)[0] is reason


def test_what_a_process_leaves_behind_is_ended_with_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, sys, pathlib;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))"
    )
    ended = Runner().run(python(code), log=tmp_path / "log")
    assert ended.reason is None
    assert not alive(int(pid_file.read_text()))


def test_cancelling_ends_what_runs_and_starts_nothing_more(tmp_path: Path) -> None:
    runner = Runner()
    ready = tmp_path / "pid"
    code = SLEEPER.format(ready=str(ready))
    raised: list[BaseException] = []

    def work() -> None:
        try:
            runner.run(python(code), log=tmp_path / "log")
        except Cancelled as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    deadline = time.monotonic() + 60
    while not (ready.exists() and ready.read_text()) and time.monotonic() < deadline:
        thread.join(0.02)
    runner.cancel()
    thread.join(60)
    assert len(raised) == 1
    assert not alive(int(ready.read_text()))
    with pytest.raises(Cancelled):
        runner.run(python("pass"), log=tmp_path / "log")


def test_an_interrupted_process_takes_its_probes_with_it(tmp_path: Path) -> None:
    ready = tmp_path / "pid"
    probe = SLEEPER.format(ready=str(ready))
    code = (
        "import sys; from pathlib import Path; from dtypefix.validate.runner import Runner;"
        f"Runner().run([sys.executable, '-c', {probe!r}], log=Path({str(tmp_path / 'log')!r}))"
    )
    process = subprocess.Popen(python(code), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (ready.exists() and ready.read_text()) and time.monotonic() < deadline:
        if process.poll() is not None:
            break
        threading.Event().wait(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0
    assert not alive(int(ready.read_text()))
