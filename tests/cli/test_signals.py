from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from dtypefix import cli
from dtypefix.cli._signals import stopped_by_signals
from dtypefix.edits.write import write_file

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_in_the_middle_of_a_write_leaves_the_file_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"before\n")
    monkeypatch.setattr(os, "fsync", lambda descriptor: os.kill(os.getpid(), number))
    with pytest.raises(KeyboardInterrupt), stopped_by_signals() as came:
        write_file(path, b"before\n", b"after\n")
    assert came == [number]
    assert path.read_bytes() == b"before\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupt_that_an_import_swallows_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    def command(*args: object, **options: object) -> None:
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            raise AttributeError("half a module") from None

    monkeypatch.setattr(cli.group, "main", command)
    assert cli.main([]) == 128 + number
    assert capsys.readouterr().err == "dtypefix: interrupted\n"


def test_handlers_are_put_back_and_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with stopped_by_signals() as came:
            os.kill(os.getpid(), signal.SIGTERM)
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert came == []
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_another_error_is_not_taken_for_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(*args: object, **options: object) -> None:
        raise AttributeError("a defect")

    monkeypatch.setattr(cli.group, "main", command)
    with pytest.raises(AttributeError):
        cli.main([])
