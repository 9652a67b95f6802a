"""Patches that look right and are not: each is told by what it does, not by how it reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Prove

HEAD = "vllm/model_executor/models/llama_eagle3.py"
PLACE = f"{HEAD}:372:unguarded-combiner"
CALL, FIRST = 372, 368  # where the projection stands, and the first line behind the early return
CAST = "hidden_states = hidden_states.to(self.model.fc.params_dtype)"

LIES = {
    "the weight's dtype, which may be packed": (
        FIRST,
        "hidden_states = hidden_states.to(self.model.fc.weight.dtype)",
        "CONTROL FAILED",
    ),
    "a cast behind the norm": (CALL, CAST, "REPRODUCED-NOT-FIXED"),
    "a configuration read where none is set": (
        FIRST,
        "import vllm.config as c; "
        "hidden_states = hidden_states.to(c.get_current_vllm_config().model_config.dtype)",
        "CONTROL FAILED",
    ),
    "nothing at all": (FIRST, "", "REPRODUCED-NOT-FIXED"),
    "other values": (FIRST, f"{CAST} * 1.5", "CONTROL FAILED"),
    "a literal that fits one model": (
        FIRST,
        "hidden_states = hidden_states.to(torch.bfloat16)",
        "CONTROL FAILED",
    ),
    "no lie": (FIRST, CAST, "VALIDATED"),
}


@pytest.mark.parametrize("lie", list(LIES))
def test_a_lie_gets_its_verdict(
    lie: str, prove: Prove, release: Callable[[str], Path], patch: Callable[..., Path]
) -> None:
    line, text, verdict = LIES[lie]
    base = release("0.20.2")
    patched = patch(base, HEAD, line, f"        {text}\n" if text else "")
    proof = prove(patched, base, "--place", PLACE, "--tier", "model")
    assert proof.row("llama_eagle3.py", 372, "model")["verdict"] == verdict
    assert proof.status == (0 if verdict == "VALIDATED" else 1)


def test_a_scheme_left_out_on_purpose_stays_reproduced(
    prove: Prove, release: Callable[[str], Path], patch: Callable[..., Path]
) -> None:
    base = release("0.20.2")
    path = "vllm/model_executor/layers/quantization/fp8.py"
    patched = patch(base, HEAD, FIRST, f"        {CAST}\n")
    proof = prove(patched, base, "--place", f"{path}:274:ambient-out-dtype", "--tier", "flip")
    assert proof.row("quantization/fp8.py", 274, "flip")["verdict"] == "REPRODUCED-NOT-FIXED"
    assert proof.status == 1
