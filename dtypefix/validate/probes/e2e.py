"""End to end: ``vllm.LLM`` in this process, dummy weights, greedy generation on CPU. One case a process."""

from __future__ import annotations

import contextlib
import importlib
import json
from pathlib import Path
from typing import Any

import torch

from .harness import prepare, write_models
from .protocol import Session

PROMPTS: tuple[list[int], ...] = ([1, 5, 7, 9, 5, 7, 9], [1, 8, 8, 20])
RANK = 8


def main(request: str) -> None:
    """Run the cases of a request, in order."""
    session = Session(request)
    prepare(session)
    folders = write_models(session.request["models"])
    for case in session.cases:
        started = session.start(case["name"])
        outcome: dict[str, Any] = {"stage": "start", "injected": bool(case.get("inject"))}
        try:
            outcome |= _generate(case, folders, outcome)
        except Exception as error:
            outcome["error"] = session.error(error)
        session.finish(case["name"], outcome, started)
    session.done()


def _generate(case: dict[str, Any], folders: dict[str, str], outcome: dict[str, Any]) -> dict[str, Any]:
    from vllm import LLM, SamplingParams
    from vllm.v1.executor.uniproc_executor import UniProcExecutor

    arguments: dict[str, Any] = {
        "model": folders[case["target"]],
        # The class, not its name: a CPU platform silently turns "uni" into worker processes.
        "distributed_executor_backend": UniProcExecutor,
        "load_format": "dummy",
        "dtype": "bfloat16",
        "enforce_eager": True,
        "max_model_len": 128,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 256,
        "skip_tokenizer_init": True,
        "disable_log_stats": True,
    }
    if case.get("draft"):
        arguments["speculative_config"] = {
            "method": case["method"],
            "model": folders[case["draft"]],
            "num_speculative_tokens": case.get("tokens", 2),
        }
    if case.get("lora"):
        arguments |= {"enable_lora": True, "max_lora_rank": RANK, "max_loras": 1}
    calls: list[list[str]] = []
    with _watched(case, calls):
        engine = LLM(**arguments)
        outcome["stage"] = "generate"
        sampling = SamplingParams(max_tokens=8, temperature=0, ignore_eos=True, logprobs=1, detokenize=False)
        extra = {"lora_request": _adapter(folders[case["target"]])} if case.get("lora") else {}
        prompts: Any = [{"prompt_token_ids": prompt} for prompt in PROMPTS]
        results = engine.generate(prompts, sampling, use_tqdm=False, **extra)
    return {
        "stage": "done",
        "tokens": [list(result.outputs[0].token_ids) for result in results],
        "logprobs": [
            [next(iter(step.values())).logprob for step in result.outputs[0].logprobs] for result in results
        ],
        "combined": len(calls),
        "dtypes": sorted({tuple(call) for call in calls}),
    }


@contextlib.contextmanager
def _watched(case: dict[str, Any], calls: list[list[str]]) -> Any:
    """Record what the drafter's combiner is given and returns; with ``inject`` give it float32."""
    if not case.get("draft"):
        yield
        return
    owner = getattr(importlib.import_module(case["module"]), case["class"])
    original = owner.combine_hidden_states

    def combine_hidden_states(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
        given = hidden_states.float() if case.get("inject") else hidden_states
        result: torch.Tensor = original(self, given)
        calls.append([str(given.dtype), str(result.dtype)])
        return result

    owner.combine_hidden_states = combine_hidden_states
    try:
        yield
    finally:
        owner.combine_hidden_states = original


def _adapter(model: str) -> Any:
    """A small LoRA adapter for every layer's query projection, written beside the model."""
    from safetensors.torch import save_file
    from vllm.lora.request import LoRARequest

    config = json.loads(Path(model, "config.json").read_text())
    width, layers = config["hidden_size"], config["num_hidden_layers"]
    heads = config["num_attention_heads"] * config["head_dim"]
    folder = Path(model, "adapter")
    folder.mkdir(exist_ok=True)
    generator = torch.Generator().manual_seed(11)
    weights = {}
    for layer in range(layers):
        stem = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        weights[f"{stem}.lora_A.weight"] = 0.02 * torch.randn(RANK, width, generator=generator)
        weights[f"{stem}.lora_B.weight"] = 0.02 * torch.randn(heads, RANK, generator=generator)
    save_file(weights, str(folder / "adapter_model.safetensors"))
    adapter = {
        "peft_type": "LORA",
        "r": RANK,
        "lora_alpha": RANK,
        "target_modules": ["q_proj"],
        "bias": "none",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "none",
    }
    (folder / "adapter_config.json").write_text(json.dumps(adapter))
    return LoRARequest("probe", 1, str(folder))
