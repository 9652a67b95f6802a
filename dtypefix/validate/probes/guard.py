"""Makes operand dtypes count where a kernel lets them pass: on fake tensors, and on CPU kernels that mix."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_ATEN = torch.ops.aten

# The operands of each that CUDA requires to share one dtype (addmm: "expected mat1 and mat2 to have
# the same dtype"; convolution: "Input type and weight type should be the same").
_OPERANDS: dict[Any, tuple[int, ...]] = {
    _ATEN.mm.default: (0, 1),
    _ATEN.addmm.default: (0, 1, 2),
    _ATEN.bmm.default: (0, 1),
    _ATEN.baddbmm.default: (0, 1, 2),
    _ATEN.linear.default: (0, 1, 2),
    _ATEN.mv.default: (0, 1),
    _ATEN.dot.default: (0, 1),
    _ATEN.matmul.default: (0, 1),
    _ATEN.convolution.default: (0, 1),
}


class MixedDtype(RuntimeError):
    """A matmul-family operator was given operands of different dtypes."""


class DtypeGuard(TorchDispatchMode):  # type: ignore[misc]
    """While active, a matmul, linear or convolution with mixed operand dtypes raises ``MixedDtype``.

    ``mm`` on meta and fake tensors does not check its operands, so a probe on those proves nothing
    without it.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, then check: where the kernel itself refuses, its own words are kept."""
        result = func(*args, **(kwargs or {}))
        operands = [args[i] for i in _OPERANDS.get(func, ()) if i < len(args)]
        dtypes = {str(operand.dtype) for operand in operands if isinstance(operand, torch.Tensor)}
        if len(dtypes) > 1:
            raise MixedDtype(f"{func}: expected operands to have the same dtype, but got {sorted(dtypes)}")
        return result
