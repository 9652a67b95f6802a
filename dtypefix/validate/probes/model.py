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

    draft_config = config.speculative_config.draft_model_config
    model = get_model(vllm_config=config, model_config=draft_config, prefix="draft_model")
    outcome["built"] = f"{type(model).__module__}.{type(model).__qualname__}"
    outcome["stage"] = "call"
    combines = case.get("call", "combine") == "combine"
    width = combiner_width(model) if combines else draft_config.get_hidden_size()
    values = exact_values(TOKENS, width).to(device)
    own = draft_config.dtype
    runs: dict[str, Any] = {}
    outcome |= {"runs": runs, "control": name_of(own), "needs_config": False}
    with Coverage(session.root, paths) as coverage:
        control = _feed(session, model, config, values.to(own), combines, False)
        if "config is not set" in control.get("error", {}).get("text", ""):
            # Whether asking for the configuration at run time is new is for the comparison to say.
            outcome["needs_config"] = True
            control = _feed(session, model, config, values.to(own), combines, True)
        runs[name_of(own)] = control
        for dtype in DTYPES:
            if dtype != own:
                runs[name_of(dtype)] = _feed(
                    session, model, config, values.to(dtype), combines, outcome["needs_config"]
                )
    outcome["covered"] = sorted(coverage.lines)


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
