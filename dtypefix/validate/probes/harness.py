"""Building real vLLM configurations, models and layers in this process, from tiny ones."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import platform
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from .protocol import Session

HIDDEN = 128
DTYPES: tuple[torch.dtype, ...] = (torch.bfloat16, torch.float32, torch.float16)


def prepare(session: Session, *, device: str = "cpu", forced: bool = False) -> None:
    """Import vLLM from the overlay and take away what would hide the fault or need a worker.

    Raises:
        RuntimeError: the vLLM that was imported is not the overlay's.
    """
    import vllm

    file = os.path.realpath(str(vllm.__file__))
    if not file.startswith(os.path.realpath(session.root) + os.sep):
        raise RuntimeError(f"imported {file}, which is not in the overlay {session.root}")
    session.fact(
        vllm=str(vllm.__version__),
        vllm_file=session.relative(str(vllm.__file__)),
        torch=torch.__version__,
        python=platform.python_version(),
        device=device,
        hardware=hardware(device),
    )
    from vllm import _custom_ops as ops
    from vllm.model_executor.models import registry

    # The CPU build's prepacked gemm takes a float32 input with a bfloat16 weight and returns garbage
    # without a word; without it vLLM takes F.linear, as its CUDA path does.
    if hasattr(ops, "_supports_onednn"):
        ops._supports_onednn = False
    # Each architecture is otherwise inspected in a new process that imports all of vLLM again.
    if hasattr(registry, "_run_in_subprocess"):
        registry._run_in_subprocess = lambda function: function()
    if device == "cpu" and not forced:
        with contextlib.suppress(ImportError, AttributeError):
            # 0.32 on: the loader calls torch.accelerator, which raises on a CPU outside a worker.
            from vllm.v1.worker.cpu_model_runner import _set_torch_accelerator_to_noop

            _set_torch_accelerator_to_noop()
    seed_dummy_weights()


def hardware(device: str) -> str:
    """What the probe runs on, in words."""
    if device != "cpu" and torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        return f"{torch.cuda.get_device_name()} (capability {major}.{minor})"
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name}, {os.cpu_count()} cores"


def seed_dummy_weights() -> None:
    """Make ``load_format=dummy`` fill weights that depend on the parameter's name alone.

    vLLM's own filler draws from ±1e-3, which in float8 is zero: every output would be equal.
    """
    from vllm.model_executor.model_loader import dummy_loader

    # Up to 0.31 the loader fills a model at once, later ones a tensor at a time.
    if hasattr(dummy_loader, "initialize_dummy_weights"):
        dummy_loader.initialize_dummy_weights = lambda model, *_, **__: fill(model)
    if hasattr(dummy_loader, "initialize_single_dummy_weight"):
        dummy_loader.initialize_single_dummy_weight = lambda tensor, *_, name="", **__: fill_one(name, tensor)


def fill(module: torch.nn.Module) -> None:
    """Fill every parameter of a module; see :func:`fill_one`."""
    for name, parameter in module.named_parameters():
        fill_one(name, parameter)


def fill_one(name: str, tensor: torch.Tensor) -> None:
    """Fill a tensor: scales constant, norms around one, the rest normal; seeded by name and shape."""
    shape = tuple(tensor.shape)
    generator = torch.Generator().manual_seed(zlib.crc32(f"{name}{shape}".encode()))
    if not tensor.dtype.is_floating_point:
        low, high = (0, 2) if tensor.dtype == torch.uint8 else (-5, 5)
        values = torch.randint(low, high, shape, generator=generator)
    elif "scale" in name:
        values = torch.full(shape, 0.02)
    elif len(shape) == 1 and ("norm" in name or name.endswith("weight")):
        values = 1 + 0.1 * torch.randn(shape, generator=generator)
    else:
        spread = 0.5 if tensor.dtype.itemsize == 1 else 0.05
        values = spread * torch.randn(shape, generator=generator)
    with torch.no_grad():
        tensor.copy_(values.to(tensor.dtype))


def write_models(models: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Write tiny model folders (a ``config.json`` each, no weights); returns their paths by name."""
    root = Path(tempfile.mkdtemp(prefix="dtypefix-models-"))
    paths = {}
    for name, config in models.items():
        folder = root / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        paths[name] = str(folder)
    return paths


def engine_config(
    model: str,
    *,
    dtype: str = "bfloat16",
    speculative: dict[str, Any] | None = None,
    quantization: str | None = None,
    **more: Any,
) -> Any:
    """A real ``VllmConfig`` for a tiny model folder, eager, without weights or a tokenizer."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    arguments = {
        "model": model,
        "load_format": "dummy",
        "dtype": dtype,
        "enforce_eager": True,
        "max_model_len": 128,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 256,
        "quantization": quantization,
        "skip_tokenizer_init": True,
        "speculative_config": copy.deepcopy(speculative),
        "disable_log_stats": True,
    }
    # FBGEMM's checkpoints still load, but only by this name.
    if hasattr(EngineArgs, "allow_deprecated_quantization"):
        arguments["allow_deprecated_quantization"] = True
    return EngineArgs(**(arguments | more)).create_engine_config(UsageContext.LLM_CLASS)


def on_device(device: str) -> dict[str, Any]:
    """Engine options without compiled vLLM: PyTorch's own operators, on a device Triton's attention."""
    options: dict[str, Any] = {"compilation_config": {"custom_ops": ["none"]}}
    if device != "cpu":
        options["attention_backend"] = "TRITON_ATTN"
    return options


_groups: list[bool] = []


def distributed(config: Any, *, backend: str = "gloo") -> None:
    """Make the process groups of a world of one; layers ask for them when they are built.

    The group that experts ask for exists only if the model it was made for has experts.
    """
    experts = bool(getattr(config.model_config, "is_moe", False))
    if _groups and (_groups[-1] or not experts):
        return
    from vllm.config import set_current_vllm_config
    from vllm.distributed import init_distributed_environment, initialize_model_parallel
    from vllm.distributed.parallel_state import destroy_model_parallel

    with set_current_vllm_config(config):
        if _groups:
            destroy_model_parallel()
        else:
            init_distributed_environment(
                world_size=1,
                rank=0,
                local_rank=0,
                distributed_init_method=f"file://{tempfile.mktemp(prefix='dtypefix-rendezvous-')}",
                backend=backend,
            )
        initialize_model_parallel(1, 1)
    _groups.append(experts)


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """The process default dtype for a while; 0.20.2's own helper leaks it when something raises."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def name_of(dtype: torch.dtype) -> str:
    """``bfloat16`` for ``torch.bfloat16``."""
    return str(dtype).removeprefix("torch.")


def exact_values(*shape: int) -> torch.Tensor:
    """Float32 values that bfloat16 and float16 hold exactly: multiples of 1/16 in [-4, 4].

    The same values in another dtype must then give the same result, bit for bit.
    """
    generator = torch.Generator().manual_seed(7)
    return torch.randn(*shape, generator=generator).mul(16).round().clamp(-64, 64).div(16)
