"""The flip probe: quantised layers built under each process default dtype.

The default changes only while the quantisation method is chosen and creates its weights: under a wholly
changed default every parameter would follow it, and nothing could be told apart.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

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

DEFAULTS = ("float32", "bfloat16", "float16")
WIDTH, HEIGHT, TOKENS = 512, 256, 16
PREFIX = "model.layers.0.mlp.down_proj"


def main(request: str) -> None:
    """Run every case of a request, on real tensors."""
    session = Session(request)
    device = session.request.get("device", "cpu")
    if device != "cpu":
        session.fact(**without_extensions(session.root, session.request.get("csrc")))
    prepare(session, device=device)
    run_cases(session, contextlib.nullcontext, executed=True)


def run_cases(session: Session, mode: Any, *, executed: bool) -> None:
    """Run the cases; ``mode`` makes the context that tensors live in, real or fake."""
    folders = write_models(session.request["models"])
    paths = {place["path"] for place in session.request["places"]}
    device = session.request.get("device", "cpu")
    for case in session.cases:
        started = session.start(case["name"])
        outcome: dict[str, Any] = {"stage": "config", "executed": executed}
        try:
            config = engine_config(
                folders[case["model"]],
                dtype=case.get("dtype", "bfloat16"),
                quantization=case.get("quantization"),
                **on_device(device),
            )
            distributed(config, backend="gloo" if device == "cpu" else "nccl")
            outcome["model_dtype"] = name_of(config.model_config.dtype)
            flips = outcome["flips"] = {}
            for flipped in (getattr(torch, name) for name in case.get("defaults", DEFAULTS)):
                with mode():
                    flips[name_of(flipped)] = _flip(session, config, flipped, paths, device)
        except Exception as error:
            outcome["error"] = session.error(error)
        finally:
            torch.set_default_dtype(torch.float32)
        session.finish(case["name"], outcome, started)
    session.done()


def _flip(
    session: Session, config: Any, flipped: torch.dtype, paths: set[str], device: str
) -> dict[str, Any]:
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.layers.linear import ReplicatedLinear

    own = config.model_config.dtype
    run: dict[str, Any] = {"stage": "construct", "attributes": {}, "owners": {}, "covered": []}
    coverage = Coverage(session.root, paths)
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
            for owner in holders(layer):
                coverage.note(owner)
            run["method"] = type(layer.quant_method).__name__
            run["kernel"] = kernel_name(layer)
            run["stage"] = "load"
            _load(layer, run)
        run["stage"] = "apply"
        with set_current_vllm_config(config), torch.inference_mode():
            output = layer(exact_values(TOKENS, WIDTH).to(own).to(device))
        run["output"] = name_of(output.dtype)
        run["digest"] = digest(output) if type(output) is torch.Tensor else ""
        run["stage"] = "done"
    except Exception as error:
        run["error"] = session.error(error)
    run |= {
        "attributes": coverage.attributes,
        "owners": coverage.owners,
        "covered": sorted(coverage.lines),
    }
    return run


@contextlib.contextmanager
def flipped_methods(quant_config: Any, flipped: torch.dtype, own: torch.dtype) -> Iterator[None]:
    """Flip the default around ``get_quant_method`` and ``create_weights`` of one configuration object."""
    if quant_config is None:
        yield
        return
    original = type(quant_config).get_quant_method

    def get_quant_method(layer: Any, prefix: str) -> Any:
        with default_dtype(flipped):
            method = original(quant_config, layer, prefix)
        if method is None:
            return None
        create = method.create_weights

        def create_weights(*args: Any, **kwargs: Any) -> Any:
            with default_dtype(flipped):
                return create(*args, **kwargs)

        method.create_weights = create_weights
        return method

    quant_config.get_quant_method = get_quant_method
    try:
        yield
    finally:
        del quant_config.get_quant_method


def _load(layer: Any, run: dict[str, Any]) -> None:
    """Fill the weights and let the method process them, as the loader does."""
    weight = getattr(layer, "weight", None)
    if weight is not None and weight.device.type == "meta":
        # A method that quantises while loading waits for the checkpoint's weight.
        values = 0.05 * torch.randn(tuple(weight.shape), generator=torch.Generator().manual_seed(3))
        loader = getattr(weight, "weight_loader", None)
        if loader is not None:
            loader(weight, values.to(weight.dtype))
            if layer.weight.device.type == "meta":
                from vllm.model_executor.model_loader.reload.layerwise import finalize_layerwise_processing

                finalize_layerwise_processing(layer, None)
            return
    fill(layer)
    try:
        layer.quant_method.process_weights_after_loading(layer)
    except Exception as error:
        if "DataDependent" not in type(error).__name__:
            raise
        # A check of the scales' values cannot be evaluated without values: do the layout half alone.
        run["layout_only"] = True
        layer.weight = torch.nn.Parameter(layer.weight.t(), requires_grad=False)
        for name in ("weight_scale", "input_scale"):
            if getattr(layer, name, None) is not None:
                setattr(layer, name, torch.nn.Parameter(getattr(layer, name).max(), requires_grad=False))


def holders(layer: Any, depth: int = 3) -> list[Any]:
    """The objects of a layer's quantisation that can hold a dtype: method, scheme, kernel, their parts."""
    found: list[Any] = []
    queue = [
        (owner, 0) for owner in (layer.quant_method, getattr(layer, "scheme", None)) if owner is not None
    ]
    while queue:
        owner, level = queue.pop()
        if any(owner is seen for seen in found):
            continue
        found.append(owner)
        for value in getattr(owner, "__dict__", {}).values():
            ours = type(value).__module__.startswith("vllm.model_executor")
            if ours and not isinstance(value, torch.nn.Module) and level < depth:
                queue.append((value, level + 1))
    return found


def kernel_name(layer: Any) -> str:
    """The class of the kernel the method chose, ``""`` when it holds none."""
    for owner in holders(layer, 1):
        for value in getattr(owner, "__dict__", {}).values():
            if type(value).__name__.endswith("Kernel"):
                return type(value).__name__
    return ""
