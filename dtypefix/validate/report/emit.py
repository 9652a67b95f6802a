"""A small test in vLLM's style that fails on the base tree and passes on the patched one."""

from __future__ import annotations

import pprint
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dtypefix.validate import catalogue, planning
from dtypefix.validate.verdict import Row, Tier, Verdict

_HEAD = '''# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Dtypes come from the model's configuration, not from whoever calls."""

import json

import pytest
import torch

from vllm.config import set_current_vllm_config
from vllm.distributed import (
    cleanup_dist_env_and_memory,
    init_distributed_environment,
    initialize_model_parallel,
)
from vllm.engine.arg_utils import EngineArgs

CONFIGS = {configs}


@pytest.fixture
def engine_config(tmp_path, monkeypatch):
    """Makes an engine configuration from tiny models that have no weights."""
    # A prepacked gemm of the CPU build takes mixed dtypes and returns garbage.
    monkeypatch.setattr("vllm._custom_ops._supports_onednn", False, raising=False)
    monkeypatch.setattr(torch.accelerator, "empty_cache", lambda: None)

    def make(target, draft=None, method=None):
        for name in filter(None, (target, draft)):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "config.json").write_text(json.dumps(CONFIGS[name]))
        speculative = None
        if draft:
            speculative = {{
                "method": method,
                "model": str(tmp_path / draft),
                "num_speculative_tokens": 2,
            }}
        config = EngineArgs(
            model=str(tmp_path / target),
            load_format="dummy",
            dtype="bfloat16",
            enforce_eager=True,
            max_model_len=128,
            skip_tokenizer_init=True,
            speculative_config=speculative,
        ).create_engine_config()
        with set_current_vllm_config(config):
            init_distributed_environment(
                world_size=1,
                rank=0,
                local_rank=0,
                distributed_init_method=f"file://{{tmp_path}}/rendezvous",
                backend="gloo",
            )
            initialize_model_parallel(1, 1)
        return config

    yield make
    cleanup_dist_env_and_memory()
'''

_COMBINERS = """

@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("target, draft, method", {cases})
def test_drafter_takes_hidden_states_of_any_dtype(
    engine_config, target, draft, method, dtype
):
    from vllm.model_executor.model_loader import get_model

    config = engine_config(target, draft, method)
    model = get_model(
        vllm_config=config,
        model_config=config.speculative_config.draft_model_config,
        prefix="draft_model",
    )
    # Multiples of 1/16 are the same numbers in every dtype.
    hidden = torch.arange(-32, model.model.fc.input_size - 32).remainder(64) / 16
    hidden = hidden.repeat(2, 1)
    with torch.inference_mode():
        expected = model.combine_hidden_states(hidden.to(torch.bfloat16))
        result = model.combine_hidden_states(hidden.to(dtype))
    torch.testing.assert_close(result, expected, rtol=0, atol=0)
"""

_SCHEMES = """

@pytest.mark.parametrize("default", [torch.float32, torch.float16])
@pytest.mark.parametrize("model", {cases})
def test_output_dtype_does_not_follow_the_default(engine_config, model, default):
    from vllm.model_executor.layers.linear import ReplicatedLinear

    config = engine_config(model)
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        with set_current_vllm_config(config):
            layer = ReplicatedLinear(
                512,
                256,
                bias=False,
                params_dtype=torch.bfloat16,
                quant_config=config.quant_config,
                prefix="model.layers.0.mlp.down_proj",
            )
    finally:
        torch.set_default_dtype(before)
    holder = getattr(layer, "scheme", None) or layer.quant_method
    assert holder.out_dtype == torch.bfloat16
"""


def emitted(rows: Sequence[Row]) -> str:
    """The test's text for the places that were shown on a CPU; ``""`` when there is none.

    It builds the same tiny models as the probes that showed them, and needs neither a checkpoint nor a
    device.
    """
    return "".join(_parts(rows))


def _parts(rows: Sequence[Row]) -> Iterator[str]:
    drafters, schemes = _cases(rows, Tier.MODEL), _cases(rows, Tier.FLIP)
    known = {case["name"]: case for case in catalogue.drafter_cases()}
    combiners = [known[name] for name in drafters if known.get(name, {}).get("call", "combine") == "combine"]
    flips = [
        case
        for case in planning.flip_cases()
        if case["name"] in schemes
        and not (case["quantization"] or case["deprecated"])
        and "dtype" not in case
    ]
    if not combiners and not flips:
        return
    configs = {_plain(name): config for name, config in planning.model_folders([*combiners, *flips]).items()}
    yield _HEAD.format(configs=_literal(configs))
    if combiners:
        yield _COMBINERS.format(
            cases=_literal([(case["target"], case["draft"], case["method"]) for case in combiners])
        )
    if flips:
        yield _SCHEMES.format(cases=_literal([_plain(case["model"]) for case in flips]))


def _cases(rows: Sequence[Row], tier: Tier) -> list[str]:
    return sorted(
        {
            row.judgement.case
            for row in rows
            if row.tier is tier and row.platform == "cpu" and row.verdict is Verdict.VALIDATED
        }
    )


def _plain(name: str) -> str:
    """A folder's name without signs that a file system or a test's name may not like."""
    return name.replace("+", "-").replace("@", "-")


def _literal(value: Mapping[str, Any] | Sequence[Any]) -> str:
    return pprint.pformat(value, width=80, sort_dicts=False)
