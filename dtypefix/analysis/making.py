"""Making values: the arguments of a call, and the tensors that come of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dtypefix.analysis.mixing import UNKNOWN_ORIGINS, Origins
from dtypefix.analysis.origins import (
    NONE_ORIGIN,
    UNKNOWN,
    Form,
    Kind,
    Step,
    Value,
    Verb,
    item_origins,
    literal,
)

BUILTIN_DTYPES = {"@float": "float64", "@int": "int64", "@bool": "bool", "@complex": "complex128"}


@dataclass(slots=True)
class Args:
    """The evaluated arguments of a call. ``starred`` says that ``*`` or ``**`` hides some.

    ``default`` gives the default dtype at the call.
    """

    node: ast.Call
    positional: Sequence[Value]
    keywords: dict[str, Value]
    default: Callable[[], Origins]
    starred: bool = False
    names: tuple[str, ...] = field(default=("input", "self", "tensor"))

    def get(self, index: int, *names: str) -> Value | None:
        """The argument at a position or under one of the names, None when it is not given."""
        if index < len(self.positional):
            return self.positional[index]
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return None

    def first(self) -> Value:
        """The first operand of a torch function, ``UNKNOWN`` when it cannot be told."""
        found = self.get(0, *self.names)
        return UNKNOWN if found is None else found


def dtype_origins(value: Value) -> Origins:
    """The origins of the dtype that ``value``, taken as a dtype object, stands for."""
    if value.form in (Form.DTYPE, Form.NONE):
        return value.origins or UNKNOWN_ORIGINS
    if value.path in BUILTIN_DTYPES:
        return frozenset({literal(BUILTIN_DTYPES[value.path])})
    if value.form is Form.ANY:
        return value.origins or UNKNOWN_ORIGINS
    return UNKNOWN_ORIGINS


def or_default(value: Value, default: Origins) -> Origins:
    """The origins of a ``dtype=`` argument, where ``None`` asks for the default."""
    origins = dtype_origins(value)
    if NONE_ORIGIN in origins:
        origins = (origins - {NONE_ORIGIN}) | default
    return origins


def made(
    node: ast.AST,
    verb: Verb,
    origins: Origins,
    *inputs: Value,
    form: Form = Form.TENSOR,
    zero_dim: bool = False,
    through: Value | None = None,
) -> Value:
    """A value with these origins and a step that says what made it.

    ``inputs`` decide the dtype; ``through`` is the tensor whose dtype is replaced.
    """
    before: tuple[Step, ...] = ()
    for value in inputs:
        before += value.steps
    step = Step(verb, node, before, through=through.steps if through is not None else ())
    return Value(form, origins, (), "", zero_dim, (step,))


def same(operand: Value) -> Value:
    """A new tensor of the operand's dtype."""
    form = operand.form
    if form in (Form.TUPLE, Form.LIST):
        return Value(Form.TENSOR, item_origins(operand), steps=operand.steps)
    if not operand.path and form in (Form.TENSOR, Form.ANY):
        return operand
    if form in (Form.TENSOR, Form.ANY, Form.SCALAR):
        return Value(form, operand.origins, (), "", operand.zero_dim, operand.steps)
    return UNKNOWN


def as_tensor(operand: Value) -> Value:
    """The operand as what a torch function returns: certainly a tensor."""
    if operand.form is Form.TENSOR and not operand.path:
        return operand
    if operand.form in (Form.TENSOR, Form.ANY, Form.LIST, Form.TUPLE):
        origins = item_origins(operand) or UNKNOWN_ORIGINS
        return Value(Form.TENSOR, origins, (), "", operand.zero_dim, operand.steps)
    return Value(Form.TENSOR, UNKNOWN_ORIGINS)


def factory(args: Args, default: Origins) -> Value:
    """``torch.empty`` and its like; ``default`` holds without ``dtype=``."""
    given = args.keywords.get("dtype")
    if given is None:
        if args.starred:
            return Value(Form.TENSOR, UNKNOWN_ORIGINS)
        return made(args.node, Verb.CALL, default)
    return made(args.node, Verb.CALL, or_default(given, default), given)


def of_number(args: Args, numbers: Sequence[Value | None]) -> Value:
    """``full``, ``arange``, ``tensor``: Python numbers decide unless ``dtype=`` does."""
    default = UNKNOWN_ORIGINS
    details: set[str] = set()
    for number in numbers:
        if number is not None:
            details |= {
                o.detail if o.kind is Kind.SCALAR else "?" for o in item_origins(number) or [None] if o
            }
    if details and details <= {"bool", "int", "float"}:
        if "float" in details:
            default = args.default()
        else:
            default = frozenset({literal("int64" if "int" in details else "bool")})
    return factory(args, default)
