"""Taking values apart: items of sequences, elements of results, the part that is not ``None``."""

from __future__ import annotations

from dtypefix.analysis.making import same
from dtypefix.analysis.origins import NONE_ORIGIN, UNKNOWN, Form, Kind, Origin, Value, join_all

Environment = dict[str, Value]
"""Local names, and dotted paths assigned to in the scope, with their values."""


def item_of(value: Value, text: str = "") -> Value:
    """What iterating over ``value``, or indexing it by something unknown, yields."""
    if value.form is Form.TUPLE:
        return join_all(value.elements) or UNKNOWN
    if value.form is Form.LIST:
        if value.elements:
            return value.elements[0]
        if not value.origins:
            return UNKNOWN
        form = Form.SCALAR if value.kinds == {Kind.SCALAR} else Form.ANY
        return Value(form, value.origins, steps=value.steps)
    if value.form is Form.TENSOR:
        return same(value)
    if value.form is Form.ANY:
        path = f"{value.path}[]" if value.path else ""
        return Value(Form.ANY, value.origins, (), path, False, value.steps)
    if value.form is Form.OTHER and value.path:
        path = f"{value.path}[]"
        return Value(Form.ANY, frozenset({Origin(Kind.ITEM, path)}), (), path)
    return UNKNOWN


def element(value: Value, index: int) -> Value:
    """Element ``index`` of what a call returned, told apart from its siblings."""
    origins = frozenset(
        Origin(o.kind, o.detail, (), (*o.at[:2], index + 1)) if o.kind is Kind.OUTPUT and not o.at[2] else o
        for o in value.origins
    )
    return Value(Form.ANY, origins, (), "", False, value.steps)


def without_none(value: Value) -> Value | None:
    """The value where it is certainly not ``None``; None when it can be nothing else."""
    if NONE_ORIGIN not in value.origins:
        return value
    origins = value.origins - {NONE_ORIGIN}
    if not origins:
        return None
    return Value(value.form, origins, value.elements, value.path, value.zero_dim, value.steps)
