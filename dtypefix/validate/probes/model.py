"""The model probe: real drafters, built the drafter's own way, fed hidden states in three dtypes.

The first dtype is the model's own and is the control: it must give the same bits on both trees.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import torch

from .forced import without_extensions
from .guard import DtypeGuard
from .harness import (
    DTYPES,
    distributed,
    engine_config,
    exact_values,
    name_of,
    on_device,
    prepare,
    write_models,
)
from .protocol import Coverage, Session, digest

TOKENS = 4


def main(request: str) -> None:
    """Run every case of a request."""
    session = Session(request)
    device = session.request.get("device", "cpu")
    if device != "cpu":
        session.fact(**without_extensions(session.root, session.request.get("csrc")))
    prepare(session, device=device)
    folders = write_models(session.request["models"])
    paths = {place["path"] for place in session.request["places"]}
    for case in session.cases:
        started = session.start(case["name"])
        outcome: dict[str, Any] = {"stage": "config"}
        try:
            _run(session, case, folders, paths, device, outcome)
        except Exception as error:
            outcome["error"] = session.error(error)
        finally:
            torch.set_default_dtype(torch.float32)
        session.finish(case["name"], outcome, started)
    session.done()


def _run(
    session: Session,
    case: dict[str, Any],
    folders: dict[str, str],
    paths: set[str],
    device: str,
    outcome: dict[str, Any],
) -> None:
    register(case)
    combines = case.get("call", "combine") == "combine"
    model, config = _build(case, folders, device, outcome)
    outcome["built"] = f"{type(model).__module__}.{type(model).__qualname__}"
    outcome["stage"] = "call"
    draft = config.speculative_config.draft_model_config
    own = draft.dtype
    values = exact_values(TOKENS, combiner_width(model) if combines else draft.get_hidden_size()).to(device)
    runs: dict[str, Any] = {}
    outcome |= {"runs": runs, "control": name_of(own), "needs_config": False}

    def feed(dtype: torch.dtype) -> dict[str, Any]:
        nonlocal model, config
        if not combines:
            # A forward that stops half-way leaves state behind, and a configuration takes one model only.
            model, config = _build(case, folders, device, {})
        return _feed(session, model, config, values.to(dtype), combines, outcome["needs_config"])

    with Coverage(session.root, paths) as coverage:
        control = feed(own)
        if "config is not set" in control.get("error", {}).get("text", ""):
            # Whether asking for the configuration at run time is new is for the comparison to say.
            outcome["needs_config"] = True
            control = feed(own)
        runs[name_of(own)] = control
        again = feed(own)
        outcome["repeats"] = again.get("digest") == control.get("digest") and control.get("finite", True)
        for dtype in DTYPES:
            if dtype != own:
                runs[name_of(dtype)] = feed(dtype)
    outcome["covered"] = sorted(coverage.lines)


def _build(
    case: dict[str, Any], folders: dict[str, str], device: str, outcome: dict[str, Any]
) -> tuple[Any, Any]:
    """A drafter as its own loader builds it, and the configuration it was built from."""
    speculative: dict[str, Any] = {"method": case["method"], "num_speculative_tokens": case.get("tokens", 2)}
    if case.get("draft"):
        speculative["model"] = folders[case["draft"]]
    config = engine_config(
        folders[case["target"]],
        dtype=case.get("dtype", "bfloat16"),
        speculative=speculative,
        **on_device(device),
    )
    distributed(config, backend="gloo" if device == "cpu" else "nccl")
    outcome["stage"] = "build"
    from vllm.model_executor.model_loader import get_model

    draft = config.speculative_config.draft_model_config
    model = get_model(vllm_config=config, model_config=draft, prefix="draft_model")
    if case.get("call", "combine") != "combine":
        _silence_attention(model)
    return model, config


def _feed(
    session: Session, model: Any, config: Any, hidden: torch.Tensor, combines: bool, with_config: bool
) -> dict[str, Any]:
    from vllm.config import set_current_vllm_config
    from vllm.forward_context import set_forward_context

    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            if with_config:
                stack.enter_context(set_current_vllm_config(config))
            if not combines:
                # As a profiling run does: attention returns zeros when there is no metadata.
                stack.enter_context(set_forward_context(None, config, num_tokens=TOKENS))
            stack.enter_context(DtypeGuard())
            if combines:
                result = model.combine_hidden_states(hidden)
            else:
                ids = torch.arange(1, TOKENS + 1, device=hidden.device)
                result = model(ids, torch.arange(TOKENS, device=hidden.device), hidden)
    except Exception as error:
        return {"error": session.error(error)}
    first = result[0] if isinstance(result, tuple) else result
    return {
        "dtype": name_of(first.dtype),
        "digest": digest(first),
        "finite": bool(torch.isfinite(first.float()).all()),
        "norm": float(f"{first.float().norm():.4g}"),
    }


def _silence_attention(model: Any) -> None:
    """Let attention return zeros: without a cache some backends return memory as they found it."""
    for module in model.modules():
        if type(module).__name__ == "Attention":
            module.forward = lambda query, *_, **__: torch.zeros_like(query)


def combiner_width(model: Any) -> int:
    """How many features ``combine_hidden_states`` takes: the input of the widest projection it may use.

    Raises:
        LookupError: the model has no projection that takes more than one hidden state.
    """
    inner = getattr(model, "model", model)
    found = {
        name: int(module.input_size)
        for name, module in inner.named_children()
        if hasattr(module, "input_size") and ("fc" in name or "proj" in name)
    }
    if not found:
        raise LookupError(f"{type(inner).__name__} has no projection to feed")
    return found.get("fc") or max(found.values())


def register(case: dict[str, Any]) -> None:
    """Make an architecture resolve to the class of one file, where a tree picks a twin by platform."""
    wanted = case.get("register")
    if not wanted:
        return
    from vllm.model_executor.models.registry import ModelRegistry

    module = importlib.import_module(wanted["module"])
    ModelRegistry.register_model(wanted["architecture"], getattr(module, wanted["class"]))
