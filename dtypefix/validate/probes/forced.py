"""Make this process's vLLM believe that it runs on a device that is not there."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from .schemas import define

_EXTENSIONS = (
    "_C",
    "_C_stable_libtorch",
    "_moe_C",
    "_moe_C_stable_libtorch",
    "_rocm_C",
    "vllm_flash_attn._vllm_fa2_C",
    "vllm_flash_attn._vllm_fa3_C",
)
GIB = 1 << 30
_COMPILED_KERNELS = (
    "FlashInferFP8ScaledMMLinearKernel",
    "CutlassFP8ScaledMMLinearKernel",
    "MarlinFP8ScaledMMLinearKernel",
    "ROCmFP8ScaledMMLinearKernel",
)


def force(target: str, csrc: Path) -> dict[str, Any]:
    """Force ``cuda:sm_90`` or ``rocm:gfx942`` before vLLM is imported; returns facts for the report.

    Raises:
        ValueError: a target of another shape.
    """
    family, _, device = target.partition(":")
    facts = stand_in(csrc, family, supported=True)
    if family == "cuda" and device.startswith("sm_"):
        number = device.removeprefix("sm_")
        _cuda((int(number[:-1]), int(number[-1])))
    elif family == "rocm":
        _rocm(device)
    else:
        raise ValueError(f"no such platform: {target}")
    return facts | {"forced": target}


def stand_in(csrc: Path, family: str, *, supported: bool) -> dict[str, Any]:
    """Let vLLM import without its compiled extensions: empty modules, and operators that are schemas."""
    for name in _EXTENSIONS:
        sys.modules.setdefault(f"vllm.{name}", types.ModuleType(f"vllm.{name}"))
    defined, refused = define(csrc, family, supported=supported)
    return {"operators_defined": defined, "operators_refused": len(refused)}


def without_extensions(root: str, csrc: str | None) -> dict[str, Any]:
    """On a device: stand in for the compiled extensions where the overlay has none."""
    if csrc is None or any(Path(root, "vllm").glob("*.so")):
        return {}
    family = "rocm" if torch.version.hip else "cuda"
    # These choose themselves by capability alone and would call operators that are schemas here.
    os.environ["VLLM_DISABLED_KERNELS"] = ",".join(_COMPILED_KERNELS)
    return stand_in(Path(csrc), family, supported=False)


def _common(base: type[Any], capability: tuple[int, int], name: str, memory: int, units: int) -> Any:
    from vllm.platforms.interface import DeviceCapability

    def has_device_capability(cls: Any, wanted: Any, device_id: int = 0) -> bool:
        if not isinstance(wanted, tuple):
            wanted = (wanted // 10, wanted % 10)
        return capability >= tuple(wanted)

    members = {
        "get_device_capability": classmethod(lambda cls, device_id=0: DeviceCapability(*capability)),
        "has_device_capability": classmethod(has_device_capability),
        "get_device_name": classmethod(lambda cls, device_id=0: name),
        "get_device_total_memory": classmethod(lambda cls, device_id=0: memory),
        "get_device_uuid": classmethod(lambda cls, device_id=0: "none"),
        "num_compute_units": classmethod(lambda cls, device_id=0: units),
        "device_count": classmethod(lambda cls: 1),
        "is_fully_connected": classmethod(lambda cls, ids: True),
    }
    return type(f"Forced{base.__name__}", (base,), members)


def _install(platform: Any) -> None:
    import vllm.platforms as platforms

    platforms._current_platform = platform


def _cuda(capability: tuple[int, int]) -> None:
    torch.cuda.is_available = lambda: False
    import vllm.platforms  # noqa: F401  (the package must exist before its backend is imported)
    from vllm.platforms.cuda import NonNvmlCudaPlatform

    name = f"no device, capability {capability[0]}.{capability[1]} assumed"
    _install(_common(NonNvmlCudaPlatform, capability, name, 80 * GIB, 132)())


def _rocm(architecture: str) -> None:
    torch.cuda.is_available = lambda: False
    torch.cuda.device_count = lambda: 1
    torch.cuda.get_device_properties = lambda *_, **__: SimpleNamespace(
        gcnArchName=f"{architecture}:sramecc+:xnack-",
        name=f"no device, {architecture} assumed",
        major=9,
        minor=4,
        total_memory=192 * GIB,
        multi_processor_count=304,
    )
    from vllm.platforms.rocm import RocmPlatform

    _install(_common(RocmPlatform, (9, 4), f"no device, {architecture} assumed", 192 * GIB, 304)())
