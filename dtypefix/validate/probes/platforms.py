"""The platform probe: the flip probe with the platform forced and fake tensors. No kernel runs."""

from __future__ import annotations

from pathlib import Path

from torch._subclasses.fake_tensor import FakeTensorMode

from .flip import run_cases
from .forced import force
from .harness import prepare
from .protocol import Session


def main(request: str) -> None:
    """Run every case of a request."""
    session = Session(request)
    facts = force(session.request["platform"], Path(session.request["csrc"]))
    prepare(session, forced=True)
    session.fact(**facts)
    run_cases(session, lambda: FakeTensorMode(allow_non_fake_inputs=True), executed=False)
