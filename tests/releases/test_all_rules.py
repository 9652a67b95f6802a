"""All rules on vLLM 0.33.0: what must be found, what must stay silent, and how many there are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dtypefix.engine.catalog import load_catalog
from dtypefix.findings import FileResult, Finding

Scanned = Callable[..., list[FileResult]]
MODELS = "vllm/model_executor/models/"


@pytest.fixture
def findings(scanned: Scanned) -> list[Finding]:
    return [f for result in scanned("vllm==0.33.0", "ALL") for f in result.findings]


@pytest.mark.parametrize(
    ("path", "lines", "rule"),
    [
        ("vllm/models/muse_spark/common/dspark.py", [346], "packed-weight-dtype"),
        (MODELS + "gemma3n.py", [614, 629, 648, 655], "packed-weight-dtype"),
        (MODELS + "embedding_gemma2.py", [391], "packed-weight-dtype"),
        (MODELS + "openpangu.py", [654, 674, 694], "checkpoint-dtype-pinned"),
        (MODELS + "nemotron_h_mtp.py", [80, 169], "checkpoint-dtype-pinned"),
        (MODELS + "glm4v.py", [568], "checkpoint-dtype-pinned"),
        (MODELS + "ernie45_vl.py", [1113], "checkpoint-dtype-pinned"),
        (MODELS + "parakeet.py", [72], "hard-coded-half"),
        (MODELS + "kimi_k25.py", [370], "module-to-dtype"),
        (MODELS + "laguna.py", [214], "router-logits-dtype"),
        (MODELS + "hy_v3.py", [182], "router-logits-dtype"),
        (MODELS + "param2moe.py", [331], "router-logits-dtype"),
    ],
)
def test_a_known_hazard_is_found(findings: list[Finding], path: str, lines: list[int], rule: str) -> None:
    found = {f.span.line for f in findings if f.path == path and f.rule == rule and f.counts}
    assert found >= set(lines)


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        pytest.param("vllm/ir/ops/layernorm.py", None, id="a second element that only looks uncast"),
        pytest.param("vllm/model_executor/hw_agnostic/layers/layernorm.py", None, id="its twin"),
        pytest.param(
            "vllm/model_executor/layers/quantization/modelopt.py", None, id="a guarded ambient read"
        ),
        pytest.param("vllm/model_executor/layers/quantization/online/lm_head.py", None, id="an online head"),
        pytest.param(MODELS + "glmasr.py", None, id="a convolution's weight as witness"),
        pytest.param(MODELS + "minicpmv.py", None, id="a literal default-dtype block"),
        pytest.param(MODELS + "kimi_k25.py", [356], id="a guarded module cast"),
        pytest.param(MODELS + "parakeet.py", [63], id="the dtype that a class carries"),
    ],
)
def test_what_only_looks_wrong_is_silent(findings: list[Finding], path: str, lines: list[int] | None) -> None:
    here = [f for f in findings if f.path == path]
    assert not [f for f in here if lines is None or f.span.line in lines]


def test_a_weight_whose_convolution_is_never_quantised_is_a_fair_witness(findings: list[Finding]) -> None:
    assert not [f for f in findings if f.path == MODELS + "glm4v.py" and f.rule == "packed-weight-dtype"]


def test_the_report_of_a_whole_release_stays_readable(findings: list[Finding]) -> None:
    default = {rule.name for rule in load_catalog().select()}
    counting = [f for f in findings if f.counts]
    assert len(counting) <= 600
    assert len([f for f in counting if f.rule in default]) <= 200


def test_every_finding_carries_its_evidence(findings: list[Finding]) -> None:
    for finding in findings:
        if finding.counts and finding.rule != "ignore-comment":
            assert finding.evidence, f"{finding.path}:{finding.span.line} {finding.rule}"
