"""How torch promotes dtypes: ``promote_types`` and the category rules of ``result_type``.

The tables are checked against a real torch for every pair in ``tests/analysis/test_promotion.py``.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

Category = Literal["bool", "int", "float", "complex", "opaque"]

ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "chalf": "complex32",
    "bit": "uint1",
}
_COMPONENT = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_COMPLEX = {"float16": "complex32", "float32": "complex64", "float64": "complex128", "bfloat16": "complex64"}
_SIGNED = ("int8", "int16", "int32", "int64")
_FLOATS = ("float16", "bfloat16", "float32", "float64")
# Unsigned types that torch promotes with floating types only.
_BARE_UNSIGNED = ("uint16", "uint32", "uint64", *(f"uint{bits}" for bits in range(1, 8)))
FP8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
_FP4 = "float4_e2m1fn_x2"
_OPAQUE = (
    *FP8,
    *(f"int{bits}" for bits in range(1, 8)),
    *("bits8", "bits16", "bits1x8", "bits2x4", "bits4x2"),
    *("qint8", "qint32", "quint8", "quint2x4", "quint4x2"),
    _FP4,
)
DTYPES = frozenset((*_SIGNED, *_FLOATS, *_BARE_UNSIGNED, *_OPAQUE, *_COMPONENT, "bool", "uint8"))
HALF = frozenset({"float16", "bfloat16"})
INTEGERS = frozenset((*_SIGNED, *_BARE_UNSIGNED, "uint8"))


def dtype_name(name: str) -> str | None:
    """The canonical name of ``torch.<name>`` when it is a dtype (``half`` is ``float16``), else None."""
    name = ALIASES.get(name, name)
    return name if name in DTYPES else None


@cache
def category(dtype: str) -> Category:
    """The promotion category of a dtype; *opaque* ones promote with nothing but themselves."""
    if dtype == "bool":
        return "bool"
    if dtype in _FLOATS:
        return "float"
    if dtype in _COMPONENT:
        return "complex"
    return "int" if dtype in INTEGERS else "opaque"


def is_floating(dtype: str) -> bool:
    """Whether a dtype holds floating numbers, the 8 and 4 bit formats included."""
    return dtype in _FLOATS or dtype.startswith("float")


@cache
def promote(a: str, b: str) -> str | None:
    """``torch.promote_types(a, b)`` by name, or None where torch raises."""
    if a == b:
        return a
    if _FP4 in (a, b):
        other = b if a == _FP4 else a
        return _FP4 if other in _BARE_UNSIGNED else None
    kinds = {category(a), category(b)}
    if "opaque" in kinds:
        return None
    if "complex" in kinds:
        return _promote_complex(a, b)
    if "float" in kinds:
        if kinds == {"float"}:
            if {a, b} == HALF:
                return "float32"
            return max(a, b, key=_FLOATS.index)
        return a if category(a) == "float" else b
    if a in _BARE_UNSIGNED or b in _BARE_UNSIGNED:
        return None
    if "bool" in kinds:
        return a if b == "bool" else b
    if "uint8" in (a, b):
        other = b if a == "uint8" else a
        return "int16" if other == "int8" else other
    return max(a, b, key=_SIGNED.index)


def _promote_complex(a: str, b: str) -> str | None:
    if a in _BARE_UNSIGNED or b in _BARE_UNSIGNED:
        return None
    if category(a) != "complex":
        a, b = b, a
    if category(b) in ("int", "bool"):
        return a
    mixed = promote(_COMPONENT[a], _COMPONENT.get(b, b))
    return _COMPLEX[mixed] if mixed else None


def promote_scalar(dtype: str, scalar: str, default: str | None) -> str | None:
    """The dtype of ``tensor <op> python_scalar``, as ``torch.result_type`` tells it.

    ``scalar`` is ``bool``, ``int``, ``float`` or ``complex``; ``default`` the default dtype, or
    None where it is not known, which makes the result None when it would decide.
    """
    if scalar == "complex":
        weak = _COMPLEX.get(default) if default else None
    else:
        weak = {"bool": "bool", "int": "int64", "float": default}[scalar]
    if weak is None:
        if scalar == "float":
            return dtype if is_floating(dtype) or category(dtype) == "complex" else None
        return _COMPLEX.get(dtype, dtype if category(dtype) == "complex" else None)
    return promote_zero_dim(dtype, weak)


def promote_zero_dim(dtype: str, zero_dim: str) -> str | None:
    """The dtype of a tensor with dimensions meeting a zero-dimensional one.

    The latter decides only when its category (bool, integer, floating, complex) is the higher one.
    """
    if category(dtype) == "complex":
        return dtype
    if is_floating(dtype):
        return _COMPLEX.get(dtype) if category(zero_dim) == "complex" else dtype
    if category(zero_dim) == "complex":
        return zero_dim
    if dtype == "bool" or is_floating(zero_dim):
        return promote(dtype, zero_dim)
    return dtype
