"""What calls of torch functions and tensor methods make of the dtypes of their operands."""

from __future__ import annotations

import ast
from collections.abc import Callable

from dtypefix.analysis import torch_ops as ops
from dtypefix.analysis.making import (
    BUILTIN_DTYPES,
    Args,
    as_tensor,
    dtype_origins,
    factory,
    made,
    of_number,
    or_default,
    same,
)
from dtypefix.analysis.mixing import UNKNOWN_ORIGINS, Origins, mix_all, mix_values
from dtypefix.analysis.origins import (
    NONE_ORIGIN,
    OTHER,
    UNKNOWN,
    Form,
    Kind,
    Origin,
    Value,
    Verb,
    item_origins,
    join,
    literal,
    scalar,
)

_COMPLEX_PARTS = {"complex64": "float32", "complex128": "float64", "complex32": "float16"}


def cast_to(args: Args, receiver: Value) -> Value:
    """``x.to(...)`` in all its forms: dtype, device, both, another tensor, keywords."""
    found: Origins | None = None
    source: Value | None = None
    for candidate in (args.keywords.get("dtype"), args.keywords.get("other"), *args.positional[:2]):
        if candidate is None:
            continue
        if candidate.form is Form.DTYPE or candidate.path in BUILTIN_DTYPES:
            found, source = dtype_origins(candidate), candidate
            break
        if candidate.form is Form.TENSOR:
            found, source = candidate.origins, candidate
            break
        if candidate.form is Form.ANY and candidate is not args.keywords.get("device"):
            found, source = UNKNOWN_ORIGINS, candidate
            if candidate is args.keywords.get("dtype"):
                found = candidate.origins
            break
    if source is None or found is None:
        if args.starred:
            return Value(receiver.form, UNKNOWN_ORIGINS)
        return same(receiver)
    if NONE_ORIGIN in found:
        found = (found - {NONE_ORIGIN}) | receiver.origins
    form = Form.TENSOR if receiver.form is Form.TENSOR else Form.ANY
    zero = receiver.zero_dim
    kept = (receiver, source) if NONE_ORIGIN in dtype_origins(source) else (source,)
    origins = found or UNKNOWN_ORIGINS
    return made(args.node, Verb.CAST, origins, *kept, form=form, zero_dim=zero, through=receiver)


def _reduced(args: Args, operand: Value, default: Origins, whole: bool) -> Value:
    """``sum``, ``mean``, ``softmax``: integers turn into ``default``; ``dtype=`` is honoured."""
    given = args.keywords.get("dtype")
    if given is not None:
        return made(args.node, Verb.CAST, or_default(given, operand.origins), given, through=operand)
    integral = {
        o
        for o in operand.origins
        if o.kind is Kind.LITERAL and not o.detail.startswith(("float", "bfloat", "c"))
    }
    if integral:
        return made(args.node, Verb.MIXED, (operand.origins - integral) | default, operand)
    return Value(operand.form, operand.origins, (), "", operand.zero_dim or whole, operand.steps)


def _picked(args: Args, operand: Value, method: bool) -> Value:
    """``max``, ``topk``: one tensor, the larger of two, or values with int64 indices."""
    rest = args.positional if method else args.positional[1:]
    other = rest[0] if rest else args.keywords.get("other")
    if other is not None and other.form is Form.TENSOR:
        return made(args.node, Verb.MIXED, mix_values(operand, other, args.default()), operand, other)
    if not rest and not (args.keywords.keys() & {"dim", "k", "descending", "stable"}):
        name = args.node.func.attr if isinstance(args.node.func, ast.Attribute) else ""
        if name not in ("sort", "topk", "kthvalue", "cummax", "cummin", "mode"):
            return Value(operand.form, operand.origins, (), "", True, operand.steps)
    indices = made(args.node, Verb.CALL, frozenset({literal("int64")}))
    return Value(Form.TUPLE, elements=(as_tensor(operand), indices), steps=operand.steps)


def _joined(args: Args) -> Value:
    """``cat`` and ``stack`` promote all their tensors."""
    tensors = args.get(0, "tensors")
    if tensors is None:
        return Value(Form.TENSOR, UNKNOWN_ORIGINS)
    if tensors.form is Form.TUPLE:
        origins = mix_all(tensors.elements, args.default())
    else:
        items = [Value(Form.TENSOR, frozenset({origin})) for origin in tensors.origins]
        origins = mix_all(items, args.default())
    if origins == item_origins(tensors):
        return Value(Form.TENSOR, origins or UNKNOWN_ORIGINS, steps=tensors.steps)
    return made(args.node, Verb.MIXED, origins, tensors)


def _sequence(operand: Value) -> Value:
    return Value(Form.LIST, operand.origins or UNKNOWN_ORIGINS, steps=operand.steps)


def _unique(args: Args, operand: Value) -> Value:
    extra = len(args.keywords.keys() & {"return_inverse", "return_counts"})
    if not extra:
        return as_tensor(operand)
    indices = made(args.node, Verb.CALL, frozenset({literal("int64")}))
    return Value(Form.TUPLE, elements=(as_tensor(operand), *([indices] * extra)), steps=operand.steps)


def _as_real(operand: Value) -> Value:
    dtype = operand.literal
    if dtype in _COMPLEX_PARTS:
        return Value(Form.TENSOR, frozenset({literal(_COMPLEX_PARTS[dtype])}), steps=operand.steps)
    return Value(Form.TENSOR, UNKNOWN_ORIGINS)


def _binary(args: Args, left: Value, right: Value | None, divides: bool) -> Value:
    if right is None:
        return Value(Form.TENSOR, UNKNOWN_ORIGINS)
    origins = mix_values(left, right, args.default())
    if divides and "rounding_mode" not in args.keywords:
        origins = divided(origins, args.default())
    if origins == left.origins:
        return as_tensor(left)
    return made(args.node, Verb.MIXED, origins, left, right)


def divided(origins: Origins, default: Origins) -> Origins:
    """The origins of a true division, which turns integers into the default dtype."""
    whole = {
        o
        for o in origins
        if o.kind is Kind.LITERAL and not o.detail.startswith(("float", "bfloat", "complex"))
    }
    if whole:
        origins = (origins - whole) | default
    numbers = {o for o in origins if o.kind is Kind.SCALAR}
    return (origins - numbers) | {Origin(Kind.SCALAR, "float")} if numbers else origins


def _shared(name: str, args: Args, operand: Value, rest: int) -> Value | None:
    """What ``torch.f(x, ...)`` and ``x.f(...)`` have in common; ``rest`` is the next position."""
    if name in ops.SAME:
        return same(operand)
    if name in ops.FLOATING:
        return _reduced(args, operand, args.default(), False)
    if name in ops.SUMMING:
        whole = not args.keywords and len(args.positional) == rest
        return _reduced(args, operand, frozenset({literal("int64")}), whole and name in ("sum", "prod"))
    if name in ops.PROMOTING or name in ops.DIVIDING:
        return _binary(args, operand, args.get(rest, "other", "exponent"), name in ops.DIVIDING)
    if name in ops.PRODUCTS:
        return as_tensor(operand)
    if name in ops.BOOLEAN:
        return made(args.node, Verb.CALL, frozenset({literal("bool")}))
    if name in ops.INDEXING:
        return made(args.node, Verb.CALL, frozenset({literal("int64")}))
    if name in ops.VALUES_AND_INDICES:
        return _picked(args, operand, rest == 0)
    if name in ops.SPLITTING:
        return _sequence(operand)
    if name in ("unique", "unique_consecutive"):
        return _unique(args, operand)
    if name == "view_as_real":
        return _as_real(operand)
    if name == "view_as_complex":
        return Value(Form.TENSOR, UNKNOWN_ORIGINS)
    return None


def method(name: str, receiver: Value, args: Args) -> Value | None:
    """The value of ``receiver.name(...)`` when ``name`` is a tensor method; None for others."""
    if name == "to":
        return cast_to(args, receiver)
    if name in ops.CAST_METHODS and not args.positional:
        origins = frozenset({literal(ops.CAST_METHODS[name])})
        zero = receiver.zero_dim
        return made(args.node, Verb.CAST, origins, form=receiver.form, zero_dim=zero, through=receiver)
    if name in ("view", "type"):
        given = args.get(0, "dtype")
        if given is not None and given.form is Form.DTYPE:
            origins = dtype_origins(given)
            return made(args.node, Verb.CAST, origins, given, form=receiver.form, through=receiver)
        if name == "type":
            return Value(Form.TENSOR, UNKNOWN_ORIGINS) if given is not None else OTHER
        return same(receiver)
    if name == "type_as":
        other = args.get(0, "other") or UNKNOWN
        origins = other.origins or UNKNOWN_ORIGINS
        return made(args.node, Verb.CAST, origins, other, form=receiver.form, through=receiver)
    if name in ops.NEW_FACTORIES:
        given = args.keywords.get("dtype")
        if given is None:
            return Value(Form.TENSOR, receiver.origins, steps=receiver.steps)
        return made(args.node, Verb.CALL, or_default(given, receiver.origins), given)
    if name in ops.SCALAR_METHODS:
        if name == "size" and not args.positional:
            return Value(Form.LIST, scalar("int").origins)
        return scalar(ops.SCALAR_METHODS[name])
    if name == "item":
        return scalar("number")
    if name in ("tolist", "numpy"):
        return OTHER
    if name == "where":
        return _binary(args, receiver, args.get(1, "other"), False)
    return _shared(name, args, receiver, 0)


def function(name: str, args: Args) -> Value | None:
    """The value of ``torch.name(...)`` or ``torch.nn.functional.name(...)``; None when not followed."""
    if name in ops.FACTORIES:
        return factory(args, args.default())
    if name in ops.INTEGER_FACTORIES:
        return factory(args, frozenset({literal("int64")}))
    if name in ops.LIKE_FACTORIES:
        given = args.keywords.get("dtype")
        operand = args.first()
        if given is None:
            return as_tensor(same(operand))
        return made(args.node, Verb.CALL, or_default(given, operand.origins), given)
    if name in ops.JOINING:
        return _joined(args)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(args)
    operand = args.first()
    if name in ops.LINEAR:
        return as_tensor(operand)
    found = _shared(name, args, operand, 1)
    return as_tensor(found) if found is not None and found.form in (Form.ANY, Form.SCALAR) else found


def _where(args: Args) -> Value:
    left, right = args.get(1, "input", "self"), args.get(2, "other")
    if left is None or right is None:
        return Value(Form.LIST, frozenset({literal("int64")}))
    return _binary(args, left, right, False)


def _full(args: Args) -> Value:
    return of_number(args, [args.get(1, "fill_value")])


def _arange(args: Args) -> Value:
    return of_number(args, [*args.positional, *(args.keywords.get(k) for k in ("start", "end", "step"))])


def _of_data(args: Args) -> Value:
    data = args.get(0, "data")
    if data is not None and data.form is Form.TENSOR:
        given = args.keywords.get("dtype")
        if given is None:
            return same(data)
        return made(args.node, Verb.CAST, or_default(given, data.origins), given, through=data)
    value = of_number(args, [data])
    if data is not None and data.form is Form.SCALAR:
        return Value(value.form, value.origins, (), "", True, value.steps)
    return value


def _from_buffer(args: Args) -> Value:
    return factory(args, UNKNOWN_ORIGINS)


def _second(args: Args) -> Value:
    return as_tensor(args.get(1, "weight") or UNKNOWN)


def _einsum(args: Args) -> Value:
    operand = args.get(1, "operands") or UNKNOWN
    return as_tensor(operand.elements[0] if operand.elements else operand)


def _bool(args: Args) -> Value:
    return made(args.node, Verb.CALL, frozenset({literal("bool")}))


def _listed(args: Args) -> Value:
    return _sequence(args.first())


_SPECIAL: dict[str, Callable[[Args], Value]] = {
    "where": _where,
    "full": _full,
    "arange": _arange,
    "range": _arange,
    "tensor": _of_data,
    "as_tensor": _of_data,
    "scalar_tensor": _of_data,
    "frombuffer": _from_buffer,
    "from_numpy": _from_buffer,
    "embedding": _second,
    "einsum": _einsum,
    "meshgrid": _listed,
    "broadcast_tensors": _listed,
    "scaled_dot_product_attention": lambda args: as_tensor(args.get(0, "query") or UNKNOWN),
    "cross_entropy": lambda args: as_tensor(args.first()),
    "bernoulli": lambda args: as_tensor(args.first()),
    "clone": lambda args: as_tensor(args.first()),
    "is_tensor": lambda args: scalar("bool"),
    "is_floating_point": lambda args: scalar("bool"),
    "is_complex": lambda args: scalar("bool"),
    "equal": lambda args: scalar("bool"),
    "allclose": lambda args: scalar("bool"),
    "numel": lambda args: scalar("int"),
}


def compared(node: ast.AST, left: Value, right: Value) -> Value:
    """A comparison: a bool tensor when an operand is certainly a tensor, else a Python bool or unknown."""
    if Form.TENSOR in (left.form, right.form):
        return made(node, Verb.CALL, frozenset({literal("bool")}))
    if Form.ANY in (left.form, right.form):
        return join(scalar("bool"), UNKNOWN)
    return scalar("bool")
