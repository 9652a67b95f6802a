"""From the options of ``dtypefix validate`` to a run, its reports and its exit status."""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import platformdirs

from dtypefix.errors import UserError
from dtypefix.validate import session
from dtypefix.validate.choosing import choose_places, probes_of
from dtypefix.validate.jobs import CPU, FORCED, TIERS, Request
from dtypefix.validate.overlay import tree_version
from dtypefix.validate.report import data, emit, page, table
from dtypefix.validate.runner import GIB, Limits, Runner
from dtypefix.validate.runtime import Runtime, inspect, provision
from dtypefix.validate.session import Validation
from dtypefix.validate.trees import Trees, find_trees
from dtypefix.validate.verdict import Tier, exit_status


@dataclass(frozen=True, slots=True)
class Arguments:
    """The options, as given."""

    checkout: Path
    base: str | None = None
    python: str | None = None
    provision: str | None = None
    named: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    remaining: bool = False
    tiers: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    device: str = "auto"
    format_name: str = "text"
    page: Path | None = None
    test: Path | None = None
    time_limit: float = 600.0
    memory_limit: float = 8.0
    jobs: int = 2


def run(arguments: Arguments) -> int:
    """Validate and report; returns the exit status.

    Raises:
        UserError: the request cannot be carried out.
        KeyboardInterrupt: the person interrupted; no process is left.
    """
    with tempfile.TemporaryDirectory(prefix="dtypefix-validate-") as scratch, _termination():
        trees = find_trees(arguments.checkout, arguments.base, Path(scratch))
        places = choose_places(trees, arguments.named, select=arguments.select, remaining=arguments.remaining)
        probes = probes_of(places)
        runtime = _runtime(arguments, trees)
        validation = session.validate(
            Request(
                trees,
                places,
                probes,
                runtime,
                Path(platformdirs.user_cache_dir("dtypefix")) / "overlays",
                arguments.platforms or (CPU, *FORCED),
                frozenset(Tier(name) for name in arguments.tiers) or frozenset(TIERS),
                runtime.devices[0].partition(":")[0] if runtime.devices else "",
                Limits(arguments.time_limit, int(arguments.memory_limit * GIB)),
                max(1, arguments.jobs),
            ),
            Runner(),
            _say,
        )
        per_platform = bool(arguments.platforms)
        _report(arguments, validation, per_platform)
        return exit_status(validation.rows, per_platform=per_platform)


def _runtime(arguments: Arguments, trees: Trees) -> Runtime:
    if (arguments.python is None) == (arguments.provision is None):
        raise UserError("say where the probes run: --python PATH of an environment, or --provision")
    devices = arguments.device == "auto" and (not arguments.tiers or Tier.DEVICE in arguments.tiers)
    if arguments.python is not None:
        return inspect(Path(arguments.python), devices=devices)
    return provision(trees.base, tree_version(trees.base), _say, wanted=arguments.provision or None)


def _report(arguments: Arguments, validation: Validation, per_platform: bool) -> None:
    writers: dict[str, Callable[[], None]] = {
        "text": lambda: table.write(validation, sys.stdout),
        "json": lambda: data.write(validation, sys.stdout, per_platform=per_platform),
        "markdown": lambda: page.write(validation, sys.stdout),
    }
    writers[arguments.format_name]()
    if arguments.page is not None:
        text = io.StringIO()
        page.write(validation, text)
        _write(arguments.page, text.getvalue())
    if arguments.test is not None:
        test = emit.emitted(validation.rows)
        if test:
            _write(arguments.test, test)
        else:
            _say("no test was written: no place was shown on a CPU by a probe that a test can repeat")


def _write(path: Path, text: str) -> None:
    try:
        partial = path.with_name(path.name + ".partial")
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def _termination() -> Iterator[None]:
    """Treat a request to terminate as an interruption, so that the probes are ended too."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread: whoever runs it there sees to signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
