"""Who decides a dtype: the abstract values that the dtype flow computes.

An :class:`Origin` is one possible source of a dtype ("the literal ``float32``", "whatever dtype
parameter ``x`` arrives with"). A :class:`Value` is what the analysis knows about one expression at
its place: whether it is a tensor, a dtype object or something else, and the set of origins that its
dtype can have, one for each way of getting there. What is not known stays ``UNKNOWN``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache


class Kind(StrEnum):
    """The sources that a dtype can have."""

    LITERAL = "literal"
    """A dtype written in the code; the detail names it (``float32``)."""
    MODEL = "model"
    """The model dtype; the detail says how it was read: ``config``, ``params_dtype`` or ``ambient``."""
    AMBIENT = "ambient"
    """The default dtype read where it need not be the model dtype; the detail is the scope."""
    LAYER_COMPUTE = "layer compute"
    """The dtype that the layer named in the detail computes in (``layer.params_dtype``)."""
    LAYER_WEIGHT = "layer weight"
    """The dtype that the layer named in the detail stores its weight in (``layer.weight.dtype``)."""
    CHECKPOINT = "checkpoint"
    """The dtype that the checkpoint's own configuration names."""
    KV_CACHE = "kv cache"
    """The KV-cache dtype; the detail is ``global`` (as configured) or ``resolved`` (for a layer)."""
    PLATFORM_FP8 = "platform fp8"
    """The 8-bit floating format of the platform."""
    PARAMETER = "parameter"
    """Whatever dtype the parameter named in the detail arrives with."""
    ATTRIBUTE = "attribute"
    """The dtype of the attribute whose path is the detail (``self.buffer``)."""
    ITEM = "item"
    """The dtype of an item of a container that is not followed (``kwargs["x"]``)."""
    OUTPUT = "output"
    """The dtype of what the call in the detail returns, whose inside is not followed."""
    PROMOTED = "promoted"
    """What promotion makes of ``parts``, which are not known well enough to say more."""
    SCALAR = "python scalar"
    """No dtype of its own: a Python ``bool``, ``int``, ``float`` or ``complex``."""
    NONE = "none"
    """The value ``None``."""
    UNKNOWN = "unknown"


FOREIGN = frozenset({Kind.PARAMETER, Kind.ATTRIBUTE, Kind.ITEM, Kind.OUTPUT})
CLOSED = frozenset(
    {Kind.LITERAL, Kind.MODEL, Kind.LAYER_COMPUTE, Kind.LAYER_WEIGHT, Kind.CHECKPOINT, Kind.PLATFORM_FP8}
)


@dataclass(frozen=True, slots=True)
class Origin:
    """One source of a dtype. Two equal origins are the same dtype at run time.

    ``at`` tells apart the outputs of calls that read alike: line, column and element.
    """

    kind: Kind
    detail: str = ""
    parts: tuple[Origin, ...] = ()
    at: tuple[int, int, int] = (0, 0, 0)

    @property
    def foreign(self) -> bool:
        """Whether code out of sight decides: a caller, another object, another module."""
        return self.kind in FOREIGN

    def same_dtype(self, other: Origin) -> bool:
        """Whether both are certainly the same dtype (the model dtype however it was read)."""
        return self == other or (self.kind is Kind.MODEL and other.kind is Kind.MODEL)

    def describe(self) -> str:
        """The origin in words, to stand after "the dtype is"."""
        return _describe(self)


_WORDS = {
    Kind.LAYER_COMPUTE: "the dtype `{0}` computes in",
    Kind.LAYER_WEIGHT: "the dtype `{0}` stores its weight in",
    Kind.CHECKPOINT: "the checkpoint's own dtype (`{0}`)",
    Kind.PLATFORM_FP8: "the platform's fp8 format",
    Kind.PARAMETER: "whatever dtype the caller passes in `{0}`",
    Kind.ATTRIBUTE: "the dtype of `{0}`",
    Kind.ITEM: "the dtype of the item `{0}`",
    Kind.OUTPUT: "the dtype that `{0}` returns",
    Kind.SCALAR: "that of a Python {0}",
    Kind.NONE: "not there (`None`)",
    Kind.UNKNOWN: "not known",
}


@cache
def _describe(origin: Origin) -> str:
    if origin.kind is Kind.LITERAL:
        return f"`torch.{origin.detail}`"
    if origin.kind is Kind.MODEL:
        how = {"ambient": " (the default dtype inside the build scope)"}.get(origin.detail, "")
        return "the model dtype" + how
    if origin.kind is Kind.AMBIENT:
        return {
            "outside": "the default dtype outside the build scope (float32)",
            "both": "the default dtype, read inside and outside the build scope",
        }.get(origin.detail, "the default dtype")
    if origin.kind is Kind.KV_CACHE:
        return "the global KV-cache dtype" if origin.detail == "global" else "the layer's KV-cache dtype"
    if origin.kind is Kind.PROMOTED:
        return "what promotion makes of " + " and ".join(part.describe() for part in origin.parts)
    return _WORDS[origin.kind].format(origin.detail)


class Form(StrEnum):
    """What an expression is, as far as that is known."""

    TENSOR = "tensor"
    DTYPE = "dtype"
    SCALAR = "scalar"
    TUPLE = "tuple"
    """A sequence of known length: see ``Value.elements``."""
    LIST = "list"
    """A sequence of any length; the origins are those of its items."""
    NONE = "none"
    CONFIG = "config"
    """A configuration that came with the checkpoint."""
    OTHER = "other"
    """Something that has no dtype: a string, a configuration, a shape."""
    ANY = "any"
    """Not known. Its origins say whose dtype it would have, were it a tensor or a dtype."""


class Verb(StrEnum):
    """What one step of an evidence chain shows."""

    READ = "read"
    """A source is read: the node is the expression."""
    BOUND = "bound"
    """A name is bound: the node is the target."""
    CAST = "cast"
    """A call changes the dtype."""
    CALL = "call"
    """A call returns the value."""
    MIXED = "mixed"
    """Operands of different origin meet."""
    TESTED = "tested"
    """A test or an assertion settles the dtype."""
    INSIDE = "inside"
    """A method or function of this file that was looked into returns the value."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step on the way of a value, and the steps it came from.

    ``before`` are the steps that decided the dtype, ``through`` those of a tensor whose dtype was
    replaced in this step. ``path`` is set when the step stands in another file than the one asked about.
    """

    verb: Verb
    node: ast.AST
    before: tuple[Step, ...] = field(default=(), repr=False)
    name: str = ""
    path: str = ""
    through: tuple[Step, ...] = field(default=(), repr=False)

    def chain(self, deciding: bool = False) -> list[Step]:
        """This step and all before it, sources first, each once; only what decided the dtype if so asked."""
        done: list[Step] = []
        seen: set[int] = set()
        todo: list[tuple[Step, bool]] = [(self, False)]
        while todo:
            step, expanded = todo.pop()
            if expanded:
                done.append(step)
            elif id(step) not in seen:
                seen.add(id(step))
                todo.append((step, True))
                earlier = step.before if deciding else (*step.through, *step.before)
                todo.extend((one, False) for one in reversed(earlier))
        return done


MAX_ORIGINS = 8
UNKNOWN_ORIGIN = Origin(Kind.UNKNOWN)
NONE_ORIGIN = Origin(Kind.NONE)


@dataclass(frozen=True, slots=True)
class Value:
    """What is known about an expression at its place.

    ``origins`` has one member for each alternative. ``path`` is the dotted path that the
    expression is, with local aliases expanded (``self.model.fc``), or ``""``. ``zero_dim`` says
    that the tensor certainly has no dimensions. Steps do not take part in comparisons.
    """

    form: Form
    origins: frozenset[Origin] = frozenset()
    elements: tuple[Value, ...] = ()
    path: str = ""
    zero_dim: bool = False
    steps: tuple[Step, ...] = field(default=(), compare=False)

    @property
    def alternatives(self) -> tuple[Origin, ...]:
        """The origins in a stable order."""
        return tuple(sorted(self.origins, key=lambda o: (o.kind, o.detail, o.at)))

    @property
    def only(self) -> Origin | None:
        """The one origin there is, or None when there are several or none."""
        return next(iter(self.origins)) if len(self.origins) == 1 else None

    @property
    def literal(self) -> str | None:
        """The dtype's name when it is certainly one dtype written in the code."""
        only = self.only
        return only.detail if only is not None and only.kind is Kind.LITERAL else None

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds among the origins."""
        return frozenset(o.kind for o in self.origins)

    @property
    def unknown(self) -> bool:
        """Whether some alternative is not known at all."""
        return not self.origins or UNKNOWN_ORIGIN in self.origins

    @property
    def foreign(self) -> tuple[Origin, ...]:
        """The alternatives whose dtype is decided by code out of sight."""
        return tuple(o for o in self.alternatives if o.foreign)

    @property
    def is_tensor(self) -> bool:
        """Whether the expression is certainly a tensor (or ``None``)."""
        return self.form is Form.TENSOR

    @property
    def is_dtype(self) -> bool:
        """Whether the expression is certainly a dtype (or ``None``)."""
        return self.form is Form.DTYPE

    def has(self, kind: Kind, detail: str | None = None) -> bool:
        """Whether some alternative has this kind, and this detail if one is given."""
        return any(o.kind is kind and (detail is None or o.detail == detail) for o in self.origins)

    def must_be(self, *kinds: Kind) -> bool:
        """Whether every alternative, ``None`` left out, has one of these kinds."""
        real = [o for o in self.origins if o.kind is not Kind.NONE]
        return bool(real) and all(o.kind in kinds for o in real)

    def may_have_dtype_of(self, parameter: str) -> bool:
        """Whether the dtype can still be the one that a parameter arrived with, no cast in between."""
        return any(parameter in names(o) for o in self.origins)

    def same_dtype(self, other: Value) -> bool:
        """Whether both certainly have one and the same dtype."""
        mine, theirs = self.only, other.only
        return (
            mine is not None
            and theirs is not None
            and mine.kind not in (Kind.UNKNOWN, Kind.SCALAR, Kind.NONE)
            and mine.same_dtype(theirs)
        )

    def chain(self, deciding: bool = False) -> list[Step]:
        """The steps that led here, sources first; only those that decided the dtype if so asked."""
        done: dict[int, Step] = {}
        for step in self.steps:
            done.update((id(s), s) for s in step.chain(deciding))
        return list(done.values())

    def describe(self) -> str:
        """The alternatives in words, joined by "or"."""
        return " or ".join(o.describe() for o in self.alternatives) or "not known"


def names(origin: Origin) -> Iterator[str]:
    """The parameters that an origin depends on, through promotion."""
    if origin.kind is Kind.PARAMETER:
        yield origin.detail
    for part in origin.parts:
        yield from names(part)


UNKNOWN = Value(Form.ANY, frozenset({UNKNOWN_ORIGIN}))
NONE = Value(Form.NONE, frozenset({NONE_ORIGIN}))
OTHER = Value(Form.OTHER)


@cache
def literal(dtype: str) -> Origin:
    """The origin of a dtype written in the code."""
    return Origin(Kind.LITERAL, dtype)


@cache
def scalar(kind: str) -> Value:
    """A Python scalar: ``bool``, ``int``, ``float`` or ``complex``."""
    return Value(Form.SCALAR, frozenset({Origin(Kind.SCALAR, kind)}))


@cache
def tensor_of(dtype: str) -> Value:
    """A tensor of a dtype written in the code, without evidence."""
    return Value(Form.TENSOR, frozenset({literal(dtype)}))


_SETTLED = {
    frozenset({Form.TENSOR, Form.NONE}): Form.TENSOR,
    frozenset({Form.DTYPE, Form.NONE}): Form.DTYPE,
    frozenset({Form.LIST, Form.NONE}): Form.LIST,
    frozenset({Form.SCALAR, Form.NONE}): Form.SCALAR,
    frozenset({Form.OTHER, Form.NONE}): Form.OTHER,
    frozenset({Form.TUPLE, Form.LIST}): Form.LIST,
}
MAX_STEPS = 6


def join(a: Value, b: Value) -> Value:
    """What is known when either value may be there."""
    if a is b:
        return a
    form = a.form if a.form is b.form else _SETTLED.get(frozenset((a.form, b.form)), Form.ANY)
    elements: tuple[Value, ...] = ()
    if a.form is Form.TUPLE and b.form is Form.TUPLE:
        if len(a.elements) == len(b.elements):
            elements = tuple(join(x, y) for x, y in zip(a.elements, b.elements, strict=True))
        else:
            form = Form.LIST
    mine, theirs = item_origins(a), item_origins(b)
    origins = mine if mine == theirs else mine | theirs
    if form is Form.TUPLE:
        origins = frozenset()
    elif len(origins) > MAX_ORIGINS:
        origins = frozenset({UNKNOWN_ORIGIN})
    elif form is Form.ANY and (not mine or not theirs):
        # An alternative without a dtype leaves open what the expression is.
        origins = origins | {UNKNOWN_ORIGIN}
    steps = a.steps
    if b.steps != steps:
        steps = (*steps, *(s for s in b.steps if s not in steps))[:MAX_STEPS]
    path = a.path if a.path == b.path else ""
    return Value(form, origins, elements, path, a.zero_dim and b.zero_dim, steps)


def item_origins(value: Value) -> frozenset[Origin]:
    """The origins of a value, or of the items of a sequence of known length."""
    if value.form is not Form.TUPLE:
        return value.origins
    found: set[Origin] = set()
    for element in value.elements:
        found |= item_origins(element)
    return frozenset(found)


def join_all(values: Iterable[Value]) -> Value | None:
    """The join of all values, or None when there is none."""
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return result


def with_step(value: Value, step: Step) -> Value:
    """The value with a chain that ends in ``step``."""
    return Value(value.form, value.origins, value.elements, value.path, value.zero_dim, (step,))
