"""The two releases that the rules were written from, rewritten and run before and after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Proof, Prove

FORCED_CUDA = ("cuda:sm_89", "cuda:sm_90", "cuda:sm_100")
MODELOPT = "quantization/modelopt.py"


@pytest.fixture(scope="module")
def old(prove: Prove, release: Callable[[str], Path], rewritten: Callable[[str], Path]) -> Proof:
    return prove(rewritten("0.20.2"), release("0.20.2"))


@pytest.fixture(scope="module")
def new(prove: Prove, release: Callable[[str], Path], rewritten: Callable[[str], Path]) -> Proof:
    return prove(rewritten("0.33.0"), release("0.33.0"))


@pytest.mark.parametrize(
    ("path", "line"),
    [("models/llama_eagle3.py", 372), ("models/deepseek_eagle3.py", 384), ("models/qwen3_dflash.py", 588)],
)
def test_the_three_combiners_of_the_old_release(old: Proof, path: str, line: int) -> None:
    row = old.row(path, line, "model")
    assert row["verdict"] == "VALIDATED"
    assert "expected m1 and m2 to have the same dtype" in row["before"]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("models/qwen3_dflash.py", 846),
        ("models/llama_eagle3.py", 418),
        ("models/qwen3_eagle3.py", 396),
        ("models/deepseek_eagle3.py", 368),
        ("models/laguna_dflash.py", 317),
    ],
)
def test_the_combiners_of_the_new_release_that_a_cpu_can_build(new: Proof, path: str, line: int) -> None:
    row = new.row(path, line, "model")
    assert row["verdict"] == "VALIDATED"
    assert "expected m1 and m2 to have the same dtype" in row["before"]


def test_the_other_combiners_name_the_error_that_stopped_them(new: Proof) -> None:
    rows = [row for row in new.said["rows"] if row["tier"] == "model" and row["verdict"] != "VALIDATED"]
    assert len(rows) == 7
    for row in rows:
        assert row["verdict"] == "NOT VALIDATED"
        assert row["reason"]
        assert row["detail"]


@pytest.mark.parametrize("line", [450, 542])
def test_modelopt_is_shown_by_a_real_output(old: Proof, line: int) -> None:
    row = old.row(MODELOPT, line, "flip")
    assert row["verdict"] == "VALIDATED"
    assert "real output" in row["detail"]
    assert "output float32/bfloat16/float16" in row["before"]
    assert "output bfloat16/bfloat16/bfloat16" in row["after"]


@pytest.mark.parametrize("platform", FORCED_CUDA)
@pytest.mark.parametrize("line", [450, 542, 636])
def test_modelopt_is_shown_on_forced_cuda(old: Proof, line: int, platform: str) -> None:
    row = old.row(MODELOPT, line, "platform", platform)
    assert row["verdict"] == "VALIDATED"
    assert "no kernel executed" in row["detail"]


@pytest.mark.parametrize("line", [450, 542, 636])
def test_modelopt_does_not_apply_to_rocm_in_the_old_release(old: Proof, line: int) -> None:
    assert old.verdicts(MODELOPT, line, platform="rocm:gfx942") == {"NOT APPLICABLE"}


@pytest.mark.parametrize("line", [450, 542])
def test_the_symptom_the_fault_was_reported_with(old: Proof, line: int) -> None:
    row = old.row(MODELOPT, line, "lora")
    assert row["verdict"] == "VALIDATED"
    assert "assert inputs.dtype == lora_a_weights[0].dtype" in row["before"]
    assert "lora_shrink ran" in row["after"]


def test_every_scheme_that_can_be_built_is_stable(old: Proof, new: Proof) -> None:
    for proof in (old, new):
        shown = {row["path"] for row in proof.said["rows"] if row["verdict"] == "VALIDATED"}
        failed = [
            row for row in proof.said["rows"] if row["verdict"] in ("REPRODUCED-NOT-FIXED", "CONTROL FAILED")
        ]
        assert failed == []
        schemes = {row["path"] for row in proof.said["rows"] if row["rule"] == "ambient-out-dtype"}
        assert schemes - shown == set()


@pytest.mark.parametrize(("path", "line"), [("models/llama_eagle3.py", 418), ("models/qwen3_dflash.py", 846)])
def test_drafters_end_to_end(new: Proof, path: str, line: int) -> None:
    row = new.row(path, line, "e2e")
    assert row["verdict"] == "VALIDATED"
    assert "expected m1 and m2 to have the same dtype" in row["before"]


@pytest.mark.parametrize("case", ["eagle3-llama", "dflash-qwen3", "plain", "lora", "modelopt-fp8-pcpt"])
def test_engines_generate_the_same_tokens(new: Proof, case: str) -> None:
    (line,) = (line for line in new.said["end_to_end"] if line.startswith(f"{case}:"))
    assert line.endswith("the same before and after")


def test_what_was_not_shown_is_said(old: Proof) -> None:
    notes = " ".join(old.said["notes"])
    assert "no CUDA or ROCm kernel was executed" in notes
    assert "End to end was left out" in notes
    assert old.said["facts"]["model model cpu"]["vllm_file"] == "vllm/__init__.py"
