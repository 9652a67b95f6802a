"""What a probe and the run that started it say to each other: JSON files, written whole."""

from __future__ import annotations

import hashlib
import json
import os
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

SCHEMA = 1


class Session:
    """The request a probe was given and the result it keeps up to date.

    The result file is rewritten after every step, so that a crash leaves what was already found and
    the name of the case that was running.
    """

    def __init__(self, request: str) -> None:
        self.request: dict[str, Any] = json.loads(Path(request).read_text())
        self.root: str = self.request["root"]
        self.cases: list[dict[str, Any]] = self.request["cases"]
        self._target = Path(self.request["result"])
        self._result: dict[str, Any] = {
            "schema": SCHEMA,
            "facts": {},
            "cases": {},
            "running": None,
            "done": False,
        }

    def fact(self, **facts: Any) -> None:
        """Record versions, hardware and the like."""
        self._result["facts"].update(facts)
        self._write()

    def start(self, case: str) -> float:
        """Say which case runs now; returns the time it started."""
        self._result["running"] = case
        self._write()
        return time.monotonic()

    def finish(self, case: str, outcome: dict[str, Any], started: float) -> None:
        """Record what a case showed."""
        outcome["seconds"] = round(time.monotonic() - started, 2)
        self._result["cases"][case] = outcome
        self._result["running"] = None
        self._write()

    def done(self) -> None:
        """Say that every case was run."""
        self._result["done"] = True
        self._write()

    def _write(self) -> None:
        partial = self._target.with_suffix(".partial")
        partial.write_text(json.dumps(self._result))
        os.replace(partial, self._target)

    def error(self, exception: BaseException) -> dict[str, Any]:
        """An exception as data: type, text, and the frames that lie in the tree, outermost first."""
        stack = traceback.extract_tb(exception.__traceback__)
        frames = [
            {"path": path, "line": frame.lineno, "function": frame.name}
            for frame in stack
            if (path := self.relative(frame.filename)) is not None
        ]
        text = str(exception).strip() or repr(exception)
        cause = exception.__cause__ or exception.__context__
        return {
            "type": type(exception).__name__,
            "text": text[:600],
            "frames": frames,
            # An assertion says what it wanted in its source line alone.
            "source": stack[-1].line or "" if stack and isinstance(exception, AssertionError) else "",
            "cause": f"{type(cause).__name__}: {cause}"[:300] if cause is not None else "",
        }

    def relative(self, filename: str) -> str | None:
        """A file's path within the tree, or None for a file outside it."""
        if not filename.startswith(self.root + os.sep):
            return None
        return filename[len(self.root) + 1 :].replace(os.sep, "/")


class Coverage:
    """Which lines of the places' files run, and which dtypes the objects hold when a method returns.

    Only frames of the files in question are traced by line, so a probe slows down little.
    """

    def __init__(self, root: str, paths: set[str]) -> None:
        self._files = {os.path.join(root, *path.split("/")): path for path in paths}
        self.lines: set[tuple[str, int]] = set()
        self.attributes: dict[str, str] = {}
        self.owners: dict[str, list[str]] = {}

    def __enter__(self) -> Coverage:
        import sys

        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        import sys

        sys.settrace(None)

    def note(self, owner: object) -> None:
        """Record the dtypes an object holds and the classes it is of."""
        held = own_dtypes(owner)
        if held:
            self.attributes.update(held)
            self.owners[type(owner).__name__] = [cls.__name__ for cls in type(owner).__mro__]

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        path = self._files.get(frame.f_code.co_filename)
        if path is None:
            return None
        self.lines.add((path, frame.f_lineno))

        def local(frame: FrameType, event: str, arg: object) -> Any:
            if event == "line":
                self.lines.add((path, frame.f_lineno))
            elif event == "return" and (owner := frame.f_locals.get("self")) is not None:
                # Read on the way out, also on an exception: a constructor that stops further down
                # has shown by then which dtype it took.
                self.note(owner)
            return local

        return local


def own_dtypes(owner: object) -> dict[str, str]:
    """The dtype-valued attributes of an object, keyed ``Class.attribute``."""
    import torch

    return {
        f"{type(owner).__name__}.{name}": str(value).removeprefix("torch.")
        for name, value in getattr(owner, "__dict__", {}).items()
        if isinstance(value, torch.dtype)
    }


def digest(tensor: Any) -> str:
    """A hash over dtype, shape and bytes of a tensor: equal means equal bit for bit."""
    import torch

    flat = tensor.detach().cpu().contiguous()
    head = f"{flat.dtype}{tuple(flat.shape)}".encode()
    return hashlib.sha256(head + flat.view(torch.uint8).numpy().tobytes()).hexdigest()[:16]
