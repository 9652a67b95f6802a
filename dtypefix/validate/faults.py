"""Which errors are the fault: texts of the dtype family, raised at or under the place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dtypefix.validate.verdict import Place, Reason

# CPU says m1/m2 where CUDA says mat1/mat2; the guard says "operands".
DTYPE_FAMILY = re.compile(
    r"expected (?:m1 and m2|mat1 and mat2|operands) to have the same dtype"
    r"|expected scalar type \w+ but found"
    r"|Input type .* and (?:weight|bias) type .* should be the same"
    r"|self and mat2 must have the same dtype"
    r"|dtype mismatch|mismatched dtypes?",
    re.IGNORECASE | re.DOTALL,
)

# An assertion without a text says in its own line what it wants: cutlass_scaled_mm an output of bfloat16
# or float16, lora_shrink an input of its weights' dtype.
_ASSERTED = re.compile(r"^assert\b.*dtype")

_REASONS: tuple[tuple[re.Pattern[str], Reason], ...] = (
    (re.compile(r"No module named '(?!vllm)"), Reason.DEPENDENCY_MISSING),
    (re.compile(r"undefined symbol|expected at most \d+ argument"), Reason.ABI_MISMATCH),
    (
        re.compile(
            r"object has no attribute|No module named 'vllm\._|_OpNamespace|There are no kernels|placeholder"
        ),
        Reason.OP_MISSING,
    ),
    (
        re.compile(
            r"Failed to find a kernel|PlatformEnum\.|no (?:valid|suitable) .*kernel|No compatible", re.I
        ),
        Reason.NO_KERNEL,
    ),
    (re.compile(r"triton", re.I), Reason.TRITON_ONLY),
    (re.compile(r"data-dependent|DataDependent|local_scalar_dense", re.I), Reason.DATA_DEPENDENT),
    (
        re.compile(
            r"not (?:currently )?supported|does not support|unsupported|not compiled with"
            r"|requires? .*(?:CUDA|GPU|ROCm)|NVIDIA driver",
            re.I,
        ),
        Reason.UNSUPPORTED,
    ),
)


def is_dtype_error(error: Mapping[str, Any]) -> bool:
    """Whether an error's text is of the dtype family; an assertion is judged by its source line."""
    return bool(DTYPE_FAMILY.search(error["text"]) or _ASSERTED.search(error.get("source", "")))


def is_fault(error: Mapping[str, Any], place: Place) -> bool:
    """Whether an error is the fault of a place: of the dtype family, raised at or under it.

    At or under means that a frame of the place's own file and function is on the stack: what lies
    deeper was called from there.
    """
    function = place.symbol.rpartition(".")[2]
    return is_dtype_error(error) and any(
        frame["path"] == place.path and (frame["line"] == place.line or frame["function"] == function)
        for frame in error["frames"]
    )


def reason_of(error: Mapping[str, Any], default: Reason = Reason.OTHER_ERROR) -> Reason:
    """The reason of the fixed list that an error's text stands for."""
    text = f"{error['type']}: {error['text']} {error.get('cause', '')}"
    return next((reason for pattern, reason in _REASONS if pattern.search(text)), default)


def in_words(error: Mapping[str, Any]) -> str:
    """One line: the type, the first line of the text and the deepest frame within the tree."""
    text = error["text"].splitlines()[0] if error["text"] else ""
    lines = error["text"].splitlines()
    if "validation error" in text and len(lines) > 1:
        # pydantic counts errors in its first line and names them in the second.
        text = lines[1].strip().partition(" [type=")[0]
    where = f" ({error['frames'][-1]['path']}:{error['frames'][-1]['line']})" if error["frames"] else ""
    return f"{error['type']}: {text[:220]}{where}"
