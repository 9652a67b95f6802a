"""Stores into part of a tensor that torch makes only when both sides have one dtype."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from dtypefix.analysis import promotion
from dtypefix.analysis.flow import Flow, Flows
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import UNKNOWN, UNKNOWN_ORIGIN, Form, Kind, Origin, Value
from dtypefix.analysis.scopes import last_name

_TENSOR_INDEX = re.compile(r"mask|^is_|indices|_tensor$|(^|_)dest$|_slots$|_positions?$|_mapping$")
# The position of the source among the arguments; torch checks its dtype against the receiver's.
SOURCE = {
    "index_copy": 2,
    "index_copy_": 2,
    "index_add": 2,
    "index_add_": 2,
    "index_put": 1,
    "index_put_": 1,
    "masked_scatter": 1,
    "masked_scatter_": 1,
    "scatter_": 2,
    "scatter_add_": 2,
    "scatter_add": 2,
    "scatter_reduce_": 2,
    "scatter_reduce": 2,
}
_KEYWORDS = ("source", "src", "values", "tensor")
# Kinds of sources that some particular piece of code decided, here or at the caller's.
_DECIDED = frozenset(
    {Kind.LITERAL, Kind.MODEL, Kind.AMBIENT, Kind.LAYER_COMPUTE, Kind.LAYER_WEIGHT, Kind.CHECKPOINT}
)
# Held by an object: nothing is known but that no code here decides it.
_HELD = frozenset({Kind.ATTRIBUTE})
_GIVEN = frozenset({Kind.PARAMETER, Kind.ITEM})


@dataclass(frozen=True, slots=True)
class Store:
    """``value`` is stored into places of ``target`` that ``indices`` (empty for a method) tell."""

    node: ast.stmt | ast.expr
    target: ast.expr
    value: ast.expr
    indices: tuple[ast.expr, ...] = ()


def store_of(node: ast.AST) -> Store | None:
    """The store that a statement or call may be, if it may index by a tensor, from syntax alone.

    Slices and single elements are copied with a conversion, so they are left out.
    """
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        if (
            not isinstance(target, ast.Subscript)
            or len(node.targets) > 1
            or isinstance(node.value, ast.Constant)
        ):
            return None
        parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        indices = tuple(p for p in parts if not isinstance(p, ast.Slice | ast.Constant | ast.JoinedStr))
        return Store(node, target.value, node.value, indices) if indices else None
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or node.func.attr not in SOURCE
    ):
        return None
    # A function of torch's takes the target in front of the method's arguments.
    plain = isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
    target, arguments = node.func.value, node.args
    if plain:
        target, arguments = (node.args[0], node.args[1:]) if node.args else (target, [])
    position = SOURCE[node.func.attr]
    given = [k.value for k in node.keywords if k.arg in _KEYWORDS]
    if len(arguments) > position:
        given.append(arguments[position])
    return Store(node, target, given[0]) if len(given) == 1 else None


def disagree(target: Value, value: Value) -> bool:
    """Whether the two sides of a store have different sources, so that nothing keeps their dtypes equal.

    The target is known to be indexed by a tensor.
    """
    if target.form not in (Form.TENSOR, Form.ANY) or target.unknown or value.unknown:
        return False
    if value.zero_dim or value.form not in (Form.TENSOR, Form.ANY):
        return False
    if any(not _counts(o) for o in target.origins):
        return False
    if target.origins & value.origins or target.same_dtype(value):
        return False
    mine = _leaves(target)
    theirs = _leaves(value)
    if not theirs or any(not _counts(o) for o in theirs) or mine & theirs:
        return False
    if {o.kind for o in mine | theirs} <= {Kind.MODEL}:
        return False
    if any(o.kind is Kind.ITEM and o.detail.startswith("self.") for o in mine):
        # A cache of the object's own, whose dtype its class has chosen to suit.
        return False
    held = _HELD if any(o.kind is Kind.LITERAL for o in theirs) else frozenset()
    return all(o.kind in _DECIDED | _GIVEN for o in theirs) and all(
        o.kind in _DECIDED | _GIVEN | held for o in mine
    )


def made_of(flow: Flow, value: Value) -> Value:
    """The value with results of this file's own functions replaced by what went into them.

    For helpers of one argument that cannot be looked through, such as recursive ones: what they return
    has been made of it.
    """
    found: set[Origin] = set()
    for origin in value.origins:
        call = flow.calls.get(origin.at[:2]) if origin.kind is Kind.OUTPUT else None
        if (
            call is None
            or origin.detail not in flow.module.definitions
            or len(call.args) != 1
            or call.keywords
        ):
            found.add(origin)
            continue
        for argument in call.args:
            given = flow.value(argument)
            found |= {o for o in given.origins if o.kind in _GIVEN}
            if given.form is Form.OTHER and isinstance(argument, ast.Name) and argument.id == given.path:
                # Annotated with an alias that is not looked up, such as a nest of tensors.
                found.add(Origin(Kind.PARAMETER, argument.id))
    origins = frozenset(found) or value.origins
    return Value(value.form, origins, (), value.path, value.zero_dim, value.steps)


def callers_agree(flows: Flows, store: Store) -> bool:
    """Whether every call of the function in its own file passes both sides in one dtype."""
    flow = flows.at(store.node)
    function = flow.node
    if not isinstance(function, FunctionNode):
        return False
    names = [a.arg for a in function.args.args if a.arg != "self"]
    sides = [o.detail for v in (flow.plain(store.target), flow.plain(store.value)) for o in v.origins]
    if len(sides) != 2 or any(side not in names for side in sides):
        return False
    seen = False
    for call in flows.module.nodes(ast.Call):
        if last_name(call.func) == function.name:
            given = [_argument(call, side, names) for side in sides]
            left, right = (flows.value(g) if g is not None else UNKNOWN for g in given)
            if not left.same_dtype(right) and not left.origins & right.origins - {UNKNOWN_ORIGIN}:
                return False
            seen = True
    return seen


def _argument(call: ast.Call, name: str, names: list[str]) -> ast.expr | None:
    position = names.index(name)
    by_keyword = next((k.value for k in call.keywords if k.arg == name), None)
    return by_keyword or (call.args[position] if position < len(call.args) else None)


def _leaves(value: Value) -> frozenset[Origin]:
    found: set[Origin] = set()
    todo = [o for o in value.origins if o.kind is not Kind.NONE]
    while todo:
        origin = todo.pop()
        todo.extend(origin.parts)
        if origin.kind is not Kind.PROMOTED:
            found.add(origin)
    return frozenset(found)


def _counts(origin: Origin) -> bool:
    """Whether an origin can take part in a clash of floating dtypes."""
    if origin.kind is Kind.LITERAL:
        return promotion.category(origin.detail) == "float"
    return origin.kind not in (Kind.UNKNOWN, Kind.SCALAR, Kind.PLATFORM_FP8)


def imports_kernel_language(module: Module) -> bool:
    """Whether a file holds kernels of a language whose subscripts are not torch's."""
    return any(word in module.source for word in (b"import cutlass", b"tilelang", b"import helion"))


def scaled_back(call: ast.Call) -> ast.expr | None:
    """``v`` of ``(v.to(float32) * scale).to(dtype)``."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != "to" or not isinstance(func.value, ast.BinOp):
        return None
    left, right = func.value.left, func.value.right
    if (
        not isinstance(func.value.op, ast.Mult)
        or "scale" not in ast.unparse(right)
        or not isinstance(left, ast.Call)
    ):
        return None
    if isinstance(left.func, ast.Attribute) and left.func.attr == "to" and "float32" in ast.unparse(left):
        return left.func.value
    return None


def loaded_at(flow: Flow, call: ast.Call) -> int | None:
    """The line where a kernel loads the value that ``call`` scales and casts back to its loaded dtype."""
    scaled, loaded = scaled_back(call), flow.plain(call).only
    if scaled is None or loaded is None or loaded.kind is not Kind.OUTPUT:
        return None
    if not loaded.detail.endswith(".load") or loaded not in flow.plain(scaled).origins:
        return None
    return loaded.at[0]


def indexes_by_tensor(flows: Flows, index: ast.expr) -> bool:
    """Whether an index is a tensor, so that torch compares dtypes rather than converting."""
    value: Value = flows.value(index)
    if value.form is Form.ANY:
        last = (
            index.attr
            if isinstance(index, ast.Attribute)
            else index.id
            if isinstance(index, ast.Name)
            else ""
        )
        return bool(_TENSOR_INDEX.search(last))
    return value.form is Form.TENSOR


def is_path(expr: ast.expr) -> bool:
    """Whether an expression is a name, or attributes of one."""
    return isinstance(expr, ast.Name) or (isinstance(expr, ast.Attribute) and is_path(expr.value))
