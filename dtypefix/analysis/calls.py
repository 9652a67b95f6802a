"""Evaluates calls: torch, builtins, tensor methods, and what the pack knows of others."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dtypefix.analysis import torch_ops as ops
from dtypefix.analysis import transfer
from dtypefix.analysis.items import Environment, item_of
from dtypefix.analysis.knowledge import Op
from dtypefix.analysis.making import Args, same
from dtypefix.analysis.mixing import UNKNOWN_ORIGINS
from dtypefix.analysis.origins import (
    OTHER,
    UNKNOWN,
    Form,
    Kind,
    Origin,
    Step,
    Value,
    Verb,
    item_origins,
    join,
    join_all,
    literal,
    scalar,
)
from dtypefix.analysis.promotion import dtype_name

if TYPE_CHECKING:
    from dtypefix.analysis.expressions import Expressions

_FUNCTIONAL = "torch.nn.functional."
_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer"})
# Names of tensor methods under which modules are called, too: `self.model.norm(x)`.
_ALSO_MODULES = frozenset({"norm", "dot", "select", "clip", "index", "pad", "mode", "conj", "dropout"})
# Functions of the tables that tensors do not have as methods.
_NO_METHODS = frozenset(
    """
    dropout alpha_dropout pad interpolate grid_sample pixel_shuffle pixel_unshuffle normalize layer_norm
    group_norm rms_norm batch_norm instance_norm avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d
    max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool2d upsample fold gelu silu mish selu
    softplus elu celu glu leaky_relu relu6 hardswish tanhshrink softsign logsigmoid one_hot
    """.split()  # noqa: SIM905
)
_TENSOR_METHODS = ops.KNOWN_METHODS - _NO_METHODS


def call(self: Expressions, node: ast.Call, env: Environment) -> Value:
    """The value that a call returns."""
    func = node.func
    receiver: Value | None = None
    if isinstance(func, ast.Attribute):
        receiver = self.eval(func.value, env)
        name, path = func.attr, f"{receiver.path}.{func.attr}" if receiver.path else ""
    elif isinstance(func, ast.Name):
        path, name = self.name(func, env).path, func.id
    else:
        path, name = self.eval(func, env).path, ""
    args = _arguments(self, node, env)
    if path.startswith("@"):
        if (found := self.around.dotted_calls.get(path)) is None:
            found = self.around.dotted_calls[path] = _kind(self, path[1:])
        kind, name = found
        value = _global_call(self, kind, name, path[1:], args, env)
        if value is not None:
            return value
    elif receiver is not None:
        value = _method_call(self, node, receiver, name, args, env)
        if value is not None:
            return value
    known = self.around.knowledge
    if name in known.calls:
        return _dtype_call(self, node, known.calls[name])
    if name in known.checkpoint_calls:
        return Value(Form.CONFIG, path=f"{path.removeprefix('@')}()" if path else "")
    if name in known.ops:
        return op_result(node, known.ops[name], args)
    return _output(self, node, receiver, path, name, args)


def _arguments(self: Expressions, node: ast.Call, env: Environment) -> Args:
    positional: list[Value] = []
    keywords: dict[str, Value] = {}
    starred = False
    for argument in node.args:
        value = self.eval(argument, env)
        if isinstance(argument, ast.Starred):
            starred = True
        elif not starred:
            positional.append(value)
    for keyword in node.keywords:
        value = self.eval(keyword.value, env)
        if keyword.arg is None:
            starred = True
        else:
            keywords[keyword.arg] = value
    return Args(node, positional, keywords, self.default_dtype, starred)


def _output(
    self: Expressions, node: ast.Call, receiver: Value | None, path: str, name: str, args: Args
) -> Value:
    """What a call returns whose inside is not followed here; a query may look into it."""
    if not path:
        path = f"(…).{name}" if receiver is not None else name or "(…)"
    at = (node.lineno, node.col_offset)
    self.calls[at] = node
    before = args.positional[0].steps if args.positional else ()
    origin = Origin(Kind.OUTPUT, path.removeprefix("@").removeprefix("."), (), (*at, 0))
    return Value(Form.ANY, frozenset({origin}), (), "", False, (Step(Verb.CALL, node, through=before),))


def _dtype_call(self: Expressions, node: ast.Call, origin: Origin) -> Value:
    origins = self.default_dtype() if origin.kind is Kind.AMBIENT else frozenset({origin})
    return Value(Form.DTYPE, origins, (), "", False, (Step(Verb.READ, node),))


def op_result(node: ast.Call, op: Op, args: Args) -> Value:
    """The result of an op that the pack describes."""
    through = args.positional[0].steps if args.positional else ()
    steps = (Step(Verb.CALL, node, through=through),)

    def one(entry: str, position: int) -> Value:
        where = (node.lineno, node.col_offset, position)
        return Value(Form.TENSOR, described(entry, args, op.name, where), (), "", False, steps)

    if isinstance(op.returns, str):
        return one(op.returns, 0)
    elements = tuple(one(entry, index + 1) for index, entry in enumerate(op.returns))
    return Value(Form.TUPLE, elements=elements, steps=steps)


def described(entry: str, args: Args, name: str, at: tuple[int, int, int]) -> frozenset[Origin]:
    """The origins that an entry of ``ops.toml`` stands for."""
    if entry.startswith("arg:"):
        which = entry.removeprefix("arg:")
        given = args.get(int(which)) if which.isdigit() else args.keywords.get(which)
        return item_origins(given) if given is not None else UNKNOWN_ORIGINS
    if entry == "platform_fp8":
        return frozenset({Origin(Kind.PLATFORM_FP8)})
    if entry == "none":
        return frozenset({Origin(Kind.NONE)})
    dtype = dtype_name(entry)
    return frozenset({literal(dtype) if dtype else Origin(Kind.OUTPUT, name, (), at)})


def _kind(self: Expressions, dotted: str) -> tuple[str, str]:
    """Which table a dotted name belongs to, and its name there."""
    last = dotted.rpartition(".")[2]
    if dotted in _PARAMETERS:
        return "parameter", last
    if dotted.startswith(_FUNCTIONAL):
        return "torch", last
    if dotted.startswith("torch.") and dotted not in ("torch.device", "torch.Size"):
        owner = dotted.removeprefix("torch.").rpartition(".")[0]
        if owner in ("", "special", "linalg", "fft", "Tensor"):
            return ("torch" if last not in self.around.knowledge.calls else "other"), last
    if "." not in dotted:
        return "builtin", dotted
    if dotted in ("copy.copy", "copy.deepcopy", "typing.cast"):
        return "builtin", last
    if dotted.startswith("math."):
        return "builtin", "int" if last in ("ceil", "floor", "trunc", "gcd", "lcm") else "float"
    return "other", last


def _global_call(
    self: Expressions, kind: str, name: str, dotted: str, args: Args, env: Environment
) -> Value | None:
    if kind == "torch":
        if name == "is_tensor":
            return scalar("bool")
        return transfer.function(name, args)
    if kind == "parameter":
        return same(args.get(0, "data") or UNKNOWN)
    if kind == "builtin":
        return _builtin(self, name, args, env)
    return None


def _sequence(item: Value) -> Value:
    return Value(Form.LIST, item_origins(item), (item,), "", False, item.steps)


def _builtin(self: Expressions, name: str, args: Args, env: Environment) -> Value | None:
    first = args.positional[0] if args.positional else None
    if name in ("len", "int", "id", "ord", "hash"):
        return scalar("int")
    if name in ("float", "bool", "complex"):
        return scalar(name)
    if name in ("isinstance", "hasattr", "callable", "issubclass", "any", "all"):
        return scalar("bool")
    if name in ("str", "repr", "type", "print", "dict", "format", "open", "vars", "dir"):
        return OTHER
    if name == "range":
        return _sequence(scalar("int"))
    if name == "super":
        return Value(Form.OTHER, path="super()")
    if name == "cast" and len(args.positional) > 1:
        return args.positional[1]
    if first is None:
        return Value(Form.LIST) if name in ("list", "tuple", "set") else None
    if name in ("copy", "deepcopy", "abs", "iter"):
        return first
    if name == "getattr":
        return _getattr(self, args, env)
    if name in ("list", "tuple", "set", "sorted", "reversed", "frozenset"):
        return first if first.form in (Form.TUPLE, Form.LIST) else _sequence(item_of(first))
    if name == "next":
        item = item_of(first)
        return item if len(args.positional) == 1 else join(item, args.positional[1])
    if name == "zip":
        return _sequence(Value(Form.TUPLE, elements=tuple(item_of(value) for value in args.positional)))
    if name == "enumerate":
        return _sequence(Value(Form.TUPLE, elements=(scalar("int"), item_of(first))))
    if name in ("max", "min", "sum"):
        values = args.positional if len(args.positional) > 1 and name != "sum" else [item_of(first)]
        return join_all(values)
    if name == "round":
        return scalar("int") if first.form is Form.SCALAR else first
    return None


def _getattr(self: Expressions, args: Args, env: Environment) -> Value:
    """``getattr(x, "name", default)`` reads the attribute or gives the default."""
    node = args.node
    key = node.args[1] if len(node.args) > 1 else None
    if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
        return UNKNOWN
    found = self.attribute_of(node, args.positional[0], key.value, env)
    if len(args.positional) < 3:
        return found
    default = args.positional[2]
    if default.form is Form.NONE and found.form in (Form.CONFIG, Form.OTHER):
        return found
    return join(found, default)


def _method_call(
    self: Expressions, node: ast.Call, receiver: Value, name: str, args: Args, env: Environment
) -> Value | None:
    form = receiver.form
    if form in (Form.LIST, Form.TUPLE):
        return _sequence_method(self, node, receiver, name, args, env)
    if form is Form.CONFIG:
        return receiver if name.endswith("config") else None
    if name in ("parameters", "buffers") and form is not Form.TENSOR:
        origin = Origin(Kind.LAYER_WEIGHT, receiver.path or "(…)")
        return _sequence(Value(Form.TENSOR, frozenset({origin}), steps=(Step(Verb.READ, node),)))
    if name in ("get", "pop", "setdefault") and form is not Form.TENSOR:
        return _looked_up(self, node, receiver, args, env)
    if form is Form.OTHER or form is Form.SCALAR or form is Form.NONE:
        return OTHER if form is Form.OTHER and not receiver.path else None
    if name not in _TENSOR_METHODS:
        return _conversion(receiver, name)
    if form is Form.ANY:
        if name in _ALSO_MODULES and any(a.form in (Form.TENSOR, Form.ANY) for a in args.positional):
            return None
        if (
            receiver.kinds == {Kind.UNKNOWN}
            and name not in ops.CAST_METHODS
            and name not in ("to", "type_as")
        ):
            return UNKNOWN
    return transfer.method(name, receiver, args)


def _conversion(receiver: Value, name: str) -> Value | None:
    if receiver.form is Form.TENSOR and name in ("async_tensor_h2d", "record_stream"):
        return OTHER
    return None


def _sequence_method(
    self: Expressions, node: ast.Call, receiver: Value, name: str, args: Args, env: Environment
) -> Value | None:
    if name in ("append", "extend", "insert", "add", "appendleft") and args.positional:
        added = args.positional[-1]
        item = item_of(added) if name == "extend" else added
        known = item_of(receiver) if item_origins(receiver) or receiver.elements else None
        grown = _sequence(item if known is None else join(known, item))
        key = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(key, ast.Name):
            env[key.id] = grown
        elif receiver.path:
            env[receiver.path] = grown
        return OTHER
    if name in ("pop", "popleft"):
        return item_of(receiver)
    if name == "copy":
        return receiver
    return scalar("int") if name in ("index", "count", "numel") else None


def _looked_up(
    self: Expressions, node: ast.Call, receiver: Value, args: Args, env: Environment
) -> Value | None:
    key = node.args[0] if node.args else None
    if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
        if receiver.path and args.positional:
            return Value(Form.ANY, frozenset({Origin(Kind.ITEM, f"{receiver.path}[]")}))
        return None
    found = self.item(node, receiver, key.value, env)
    return found if len(args.positional) < 2 else join(found, args.positional[1])
