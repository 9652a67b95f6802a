"""The symptom probe: a quantised layer wrapped for LoRA, its output handed to the real ``lora_shrink``.

``lora_shrink`` asserts that its input has its weights' dtype before it launches a Triton kernel; on a CPU
the kernel runs in Triton's interpreter.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch

from .flip import HEIGHT, PREFIX, TOKENS, WIDTH, flipped_methods
from .forced import without_extensions
from .harness import (
    default_dtype,
    distributed,
    engine_config,
    exact_values,
    fill,
    name_of,
    on_device,
    prepare,
    write_models,
)
from .protocol import Coverage, Session, digest

RANK = 16


def main(request: str) -> None:
    """Run every case of a request."""
    session = Session(request)
    device = session.request.get("device", "cpu")
    if device == "cpu":
        interpret_triton()
    else:
        session.fact(**without_extensions(session.root, session.request.get("csrc")))
    prepare(session, device=device)
    session.fact(triton="interpreter" if device == "cpu" else "compiled")
    folders = write_models(session.request["models"])
    paths = {place["path"] for place in session.request["places"]}
    for case in session.cases:
        started = session.start(case["name"])
        outcome: dict[str, Any] = {"stage": "config", "runs": {}}
        try:
            config = engine_config(
                folders[case["model"]],
                quantization=case.get("quantization"),
                enable_lora=True,
                max_lora_rank=RANK,
                max_loras=1,
                **on_device(device),
            )
            distributed(config, backend="gloo" if device == "cpu" else "nccl")
            outcome["model_dtype"] = name_of(config.model_config.dtype)
            for flipped in (torch.bfloat16, torch.float32):
                coverage = Coverage(session.root, paths)
                run = outcome["runs"][name_of(flipped)] = _shrink(session, config, flipped, device, coverage)
                run["covered"] = sorted(coverage.lines)
        except Exception as error:
            outcome["error"] = session.error(error)
        finally:
            torch.set_default_dtype(torch.float32)
        session.finish(case["name"], outcome, started)
    session.done()


def interpret_triton() -> None:
    """Run Triton kernels in its interpreter, and let vLLM believe that Triton can be used here."""
    os.environ["TRITON_INTERPRET"] = "1"
    from triton.backends import backends

    backends.setdefault("cpu", SimpleNamespace(driver=SimpleNamespace(is_active=lambda: True)))


def _shrink(
    session: Session, config: Any, flipped: torch.dtype, device: str, coverage: Coverage
) -> dict[str, Any]:
    from vllm.config import set_current_vllm_config
    from vllm.lora.layers import ReplicatedLinearWithLoRA
    from vllm.model_executor.layers.linear import ReplicatedLinear

    own = config.model_config.dtype
    run: dict[str, Any] = {"stage": "construct"}
    try:
        with set_current_vllm_config(config), default_dtype(own), torch.device(device):
            with coverage, flipped_methods(config.quant_config, flipped, own):
                layer = ReplicatedLinear(
                    WIDTH,
                    HEIGHT,
                    bias=False,
                    quant_config=config.quant_config,
                    prefix=PREFIX,
                    return_bias=False,
                )
            run["stage"] = "load"
            fill(layer)
            layer.quant_method.process_weights_after_loading(layer)
            wrapped = ReplicatedLinearWithLoRA(layer)
            wrapped.create_lora_weights(1, config.lora_config)
        run["stage"] = "apply"
        with set_current_vllm_config(config), torch.inference_mode():
            output = wrapped.base_layer(exact_values(TOKENS, WIDTH).to(own).to(device))
            run["output"] = name_of(output.dtype)
            run["stage"] = "shrink"
            run["digest"] = digest(_call_shrink(output, config.lora_config.lora_dtype, device))
        run["stage"] = "done"
    except Exception as error:
        run["error"] = session.error(error)
    return run


def _call_shrink(output: torch.Tensor, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Give a layer's output to the shrink operator of the next LoRA layer, one adapter for all tokens."""
    from vllm.lora.ops.triton_ops.lora_kernel_metadata import LoRAKernelMeta
    from vllm.lora.ops.triton_ops.lora_shrink_op import _lora_shrink

    tokens = output.shape[0]
    meta = LoRAKernelMeta.make(1, tokens, device=device)
    meta.prepare_tensors(torch.zeros(tokens, dtype=torch.int32, device=device))
    weights = exact_values(1, RANK, output.shape[1]).to(dtype).to(device)
    result = torch.zeros((1, tokens, RANK), dtype=torch.float32, device=device)
    _lora_shrink(output.contiguous(), [weights], result, *meta.meta_args(tokens, False), 1.0)
    return result
