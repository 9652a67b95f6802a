"""Promotion over origins: what two operands make of their dtypes when these are known only in part."""

from __future__ import annotations

from collections.abc import Iterable

from dtypefix.analysis import promotion
from dtypefix.analysis.origins import (
    MAX_ORIGINS,
    UNKNOWN_ORIGIN,
    Form,
    Kind,
    Origin,
    Value,
    item_origins,
    literal,
)

Origins = frozenset[Origin]
UNKNOWN_ORIGINS: Origins = frozenset({UNKNOWN_ORIGIN})
_FLOATING_KINDS = frozenset({Kind.MODEL, Kind.AMBIENT, Kind.CHECKPOINT, Kind.LAYER_COMPUTE})
_SCALAR_ORDER = {"bool": 0, "int": 1, "float": 2, "complex": 3}
_MAX_PARTS = 4


def promoted(parts: Iterable[Origin]) -> Origin:
    """The origin "promotion of these", flattened, each once and in a stable order."""
    flat: set[Origin] = set()
    for part in parts:
        flat.update(part.parts if part.kind is Kind.PROMOTED else (part,))
    if len(flat) > _MAX_PARTS:
        return UNKNOWN_ORIGIN
    if len(flat) == 1:
        return flat.pop()
    ordered = sorted(flat, key=lambda o: (o.kind, o.detail, o.at))
    return Origin(Kind.PROMOTED, parts=tuple(ordered))


def mix(a: Origin, b: Origin, ambient: Origins, zero: tuple[bool, bool] = (False, False)) -> Origins:
    """The dtype of an operation that promotes, for one origin of each operand.

    ``zero`` says which operand certainly has no dimensions. A tensor of unknown dtype is taken to
    hold neither float64 nor complex numbers, and to be floating where it meets a Python float.
    """
    if Kind.UNKNOWN in (a.kind, b.kind):
        return UNKNOWN_ORIGINS
    if a.same_dtype(b) or b.kind is Kind.NONE:
        return frozenset({a})
    if a.kind is Kind.NONE:
        return frozenset({b})
    if a.kind is Kind.SCALAR:
        a, b, zero = b, a, (zero[1], zero[0])
    if b.kind is Kind.SCALAR:
        return _with_scalar(a, b, ambient)
    if b.kind is Kind.LITERAL and a.kind is not Kind.LITERAL:
        a, b, zero = b, a, (zero[1], zero[0])
    if a.kind is Kind.LITERAL:
        return frozenset({_with_literal(a, b, zero)})
    if zero == (True, False):
        return frozenset({b})
    if zero == (False, True):
        return frozenset({a})
    return frozenset({promoted((a, b))})


def _with_scalar(tensor: Origin, weak: Origin, ambient: Origins) -> Origins:
    if tensor.kind is Kind.SCALAR:
        order = _SCALAR_ORDER
        if tensor.detail in order and weak.detail in order:
            return frozenset({max(tensor, weak, key=lambda o: order[o.detail])})
        return frozenset({Origin(Kind.SCALAR, "number")})
    if tensor.kind is not Kind.LITERAL or weak.detail not in _SCALAR_ORDER:
        return UNKNOWN_ORIGINS if weak.detail == "complex" else frozenset({tensor})
    default = next(iter(ambient)) if len(ambient) == 1 else UNKNOWN_ORIGIN
    name = default.detail if default.kind is Kind.LITERAL else None
    result = promotion.promote_scalar(tensor.detail, weak.detail, name)
    if result is not None:
        return frozenset({literal(result)})
    if weak.detail == "float" and promotion.category(tensor.detail) in ("int", "bool"):
        return ambient
    return UNKNOWN_ORIGINS


def _with_literal(known: Origin, other: Origin, zero: tuple[bool, bool]) -> Origin:
    dtype = known.detail
    if other.kind is Kind.LITERAL:
        if zero[0] is zero[1]:
            result = promotion.promote(dtype, other.detail)
        elif zero[0]:
            result = promotion.promote_zero_dim(other.detail, dtype)
        else:
            result = promotion.promote_zero_dim(dtype, other.detail)
        return literal(result) if result else UNKNOWN_ORIGIN
    category = promotion.category(dtype)
    if category == "opaque" or other.kind is Kind.PLATFORM_FP8:
        return UNKNOWN_ORIGIN
    if category == "bool" or (category == "int" and other.kind in _FLOATING_KINDS):
        return other
    if zero == (True, False) and category == "float" and other.kind in _FLOATING_KINDS:
        return other
    if dtype == "float32" and zero[0] is zero[1]:
        return known
    if dtype in ("float64", "complex128") and zero[0] is zero[1]:
        return known
    return promoted((known, other))


def mix_values(a: Value, b: Value, ambient: Origins) -> Origins:
    """The origins of an operation that promotes its two operands."""
    left, right = item_origins(a), item_origins(b)
    if left == right and len(left) == 1:
        return left
    found: set[Origin] = set()
    for one in left or UNKNOWN_ORIGINS:
        for other in right or UNKNOWN_ORIGINS:
            found |= mix(one, other, ambient, (a.zero_dim, b.zero_dim))
    return frozenset(found) if len(found) <= MAX_ORIGINS else UNKNOWN_ORIGINS


def mix_all(values: Iterable[Value], ambient: Origins) -> Origins:
    """The origins of an operation such as ``cat`` that promotes all its operands."""
    result: Value | None = None
    for value in values:
        result = value if result is None else Value(Form.TENSOR, mix_values(result, value, ambient))
    return item_origins(result) if result is not None else UNKNOWN_ORIGINS
