"""Evaluates expressions to abstract values, for one scope."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from dtypefix.analysis import torch_ops as ops
from dtypefix.analysis.calls import call
from dtypefix.analysis.items import Environment, element, item_of, without_none
from dtypefix.analysis.making import same
from dtypefix.analysis.mixing import UNKNOWN_ORIGINS, Origins, mix_values
from dtypefix.analysis.origins import (
    NONE,
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
    scalar,
)
from dtypefix.analysis.transfer import compared, divided

if TYPE_CHECKING:
    from dtypefix.analysis.surroundings import Surroundings


class Expressions:
    """The expression half of a flow: ``eval`` records the value of every expression it meets."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.around = surroundings
        self.values: dict[ast.AST, Value] = {}
        self.calls: dict[tuple[int, int], ast.Call] = {}
        self.default_override: Origins | None = None
        self.dotted_keys = False

    def default_dtype(self) -> Origins:
        """The origins of the default dtype here."""
        raise NotImplementedError

    def free(self, name: str) -> Value:
        """The value of a name that this scope does not bind."""
        raise NotImplementedError

    def bind(self, target: ast.expr, value: Value, env: Environment) -> None:
        """Bind a target to a value."""
        raise NotImplementedError

    def refine(self, test: ast.expr, truth: bool, env: Environment) -> None:
        """Note in ``env`` what holds when ``test`` is true or false."""
        raise NotImplementedError

    def eval(self, node: ast.expr, env: Environment) -> Value:
        """The value of an expression under ``env``."""
        handler = _HANDLERS.get(type(node))
        value = handler(self, node, env) if handler is not None else OTHER
        self.values[node] = value
        return value

    def name(self, node: ast.Name, env: Environment) -> Value:
        """A name: a local, else whatever it means further out."""
        found = env.get(node.id)
        return self.free(node.id) if found is None else found

    def constant(self, node: ast.Constant, env: Environment) -> Value:
        """A constant."""
        value = node.value
        if value is None:
            return NONE
        kind = type(value).__name__
        return scalar(kind) if kind in ("bool", "int", "float", "complex") else OTHER

    def attribute(self, node: ast.Attribute, env: Environment) -> Value:
        """An attribute: of a module, of a tensor, or of an object known by its path."""
        return self.attribute_of(node, self.eval(node.value, env), node.attr, env)

    def attribute_of(self, node: ast.expr, base: Value, attr: str, env: Environment) -> Value:
        """The attribute ``attr`` of ``base``; ``node`` is the expression that reads it."""
        path = base.path
        if path.startswith("@"):
            return self.around.dotted(f"{path[1:]}.{attr}", node)
        if self.dotted_keys:
            key = path or (node.value.id if _of_name(node) else "")  # type: ignore[attr-defined]
            found = env.get(f"{key}.{attr}") if key else None
            if found is not None:
                return found
        full = f"{path}.{attr}" if path else ""
        around = self.around
        own = full.startswith("self.") and full.count(".") == 1
        if attr in around.path_tails and full and not own and (origin := around.known_path(full)) is not None:
            if not origin.detail:
                origin = Origin(origin.kind, full)
            return _read(Form.DTYPE, frozenset({origin}), node, full)
        if base.form is Form.CONFIG:
            if attr in ("dtype", "torch_dtype"):
                origins = frozenset({Origin(Kind.CHECKPOINT, full or attr)})
                return Value(Form.DTYPE, origins, (), full, False, (Step(Verb.READ, node, base.steps),))
            form = Form.CONFIG if attr.endswith("config") else Form.ANY
            return Value(form, frozenset({Origin(Kind.ATTRIBUTE, full or attr)}), (), full)
        if attr in around.knowledge.checkpoint_attributes:
            return Value(Form.CONFIG, frozenset(), (), full)
        if attr == "dtype":
            return self._dtype(node, base, full)
        if base.form in (Form.TENSOR, Form.ANY):
            if attr in ops.PRESERVING_ATTRIBUTES:
                return same(base)
            if attr == "shape":
                return Value(Form.LIST, scalar("int").origins)
            if attr == "ndim":
                return scalar("int")
        if attr in ops.PLAIN_ATTRIBUTES or attr.endswith("device"):
            return OTHER
        if base.form is Form.TUPLE and len(base.elements) > 1 and attr in ("values", "indices"):
            return base.elements[attr == "indices"]
        layer = path or ast.unparse(node.value) if _is_attribute(node) else path  # type: ignore[attr-defined]
        if attr in around.knowledge.compute_attributes:
            return _read(Form.DTYPE, frozenset({Origin(Kind.LAYER_COMPUTE, layer)}), node, full)
        if attr in around.knowledge.weight_attributes and base.form in (Form.ANY, Form.OTHER):
            return _read(Form.TENSOR, frozenset({Origin(Kind.LAYER_WEIGHT, layer)}), node, full)
        return self._plain_attribute(node, base, attr, full)

    def _dtype(self, node: ast.expr, base: Value, full: str) -> Value:
        if base.form is Form.OTHER or not item_origins(base):
            origins = frozenset({Origin(Kind.ATTRIBUTE, full)}) if full else UNKNOWN_ORIGINS
            return _read(Form.DTYPE, origins, node, full)
        step = Step(Verb.READ, node, base.steps)
        return Value(Form.DTYPE, item_origins(base), (), full, False, (step,))

    def _plain_attribute(self, node: ast.expr, base: Value, attr: str, full: str) -> Value:
        form = Form.DTYPE if attr.endswith("dtype") else Form.ANY
        if full:
            origins = frozenset({Origin(Kind.ATTRIBUTE, full)})
            if form is Form.DTYPE:
                return _read(form, origins, node, full)
            return Value(form, origins, (), full)
        derived = frozenset(
            Origin(o.kind, f"{o.detail}.{attr}", (), o.at) if o.foreign else Origin(Kind.UNKNOWN)
            for o in base.origins
        )
        if base.form is not Form.ANY or not derived:
            derived = UNKNOWN_ORIGINS
        return Value(form, derived, (), "", False, base.steps)

    def subscript(self, node: ast.Subscript, env: Environment) -> Value:
        """An item or a slice."""
        base = self.eval(node.value, env)
        index = node.slice
        self.eval(index, env)
        constant = index.value if isinstance(index, ast.Constant) else None
        if (
            isinstance(index, ast.UnaryOp)
            and isinstance(index.op, ast.USub)
            and isinstance(index.operand, ast.Constant)
        ):
            constant = -index.operand.value if isinstance(index.operand.value, int) else None
        if base.form is Form.TUPLE:
            if isinstance(constant, int) and -len(base.elements) <= constant < len(base.elements):
                return base.elements[constant]
            item = item_of(base)
            if isinstance(index, ast.Slice):
                return Value(Form.LIST, item_origins(base), (item,), "", False, base.steps)
            return item
        if base.form is Form.LIST:
            return base if isinstance(index, ast.Slice) else item_of(base)
        if base.form is Form.TENSOR:
            return Value(Form.TENSOR, base.origins, steps=base.steps)
        if isinstance(constant, str):
            return self.item(node, base, constant, env)
        if base.form is Form.ANY and isinstance(constant, int) and base.kinds == {Kind.OUTPUT}:
            return element(base, constant)
        if isinstance(index, (ast.Tuple, ast.Slice)) and base.form is Form.ANY:
            return Value(Form.ANY, base.origins, (), "", False, base.steps)
        return item_of(base)

    def item(self, node: ast.expr, base: Value, key: str, env: Environment) -> Value:
        """The item of a mapping under a constant key."""
        held = base.path
        if not held and isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            held = node.value.id
        full = f"{held}['{key}']" if held else ""
        if self.dotted_keys and full and (found := env.get(full)) is not None:
            return found
        if base.form is Form.TENSOR:
            return UNKNOWN
        if base.unknown and not held:
            return UNKNOWN
        detail = full or f"{next(iter(base.alternatives)).detail}['{key}']"
        form = Form.DTYPE if key.endswith("dtype") else Form.ANY
        return _read(form, frozenset({Origin(Kind.ITEM, detail)}), node, full)

    def binary(self, node: ast.BinOp, env: Environment) -> Value:
        """Arithmetic."""
        return self.arithmetic(node, node.op, self.eval(node.left, env), self.eval(node.right, env))

    def arithmetic(self, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
        """The result of an arithmetic operator."""
        forms = (left.form, right.form)
        if Form.LIST in forms or Form.TUPLE in forms:
            both = forms[0] in (Form.LIST, Form.TUPLE) and forms[1] in (Form.LIST, Form.TUPLE)
            if both and isinstance(op, ast.Add):
                return _concatenated(left, right)
            if isinstance(op, ast.Mult) and Form.TENSOR not in forms:
                sequence = left if forms[0] in (Form.LIST, Form.TUPLE) else right
                return Value(Form.LIST, item_origins(sequence), (item_of(sequence),), steps=sequence.steps)
            if Form.TENSOR not in forms:
                return UNKNOWN
        if Form.OTHER in forms and Form.TENSOR not in forms:
            return OTHER if forms[0] is forms[1] else UNKNOWN
        if isinstance(op, ast.MatMult):
            form = Form.TENSOR if Form.TENSOR in forms else Form.ANY
            return Value(form, left.origins or UNKNOWN_ORIGINS, steps=left.steps)
        origins = mix_values(left, right, self.default_dtype())
        if isinstance(op, ast.Div):
            origins = divided(origins, self.default_dtype())
        form = Form.TENSOR if Form.TENSOR in forms else Form.ANY
        if forms == (Form.SCALAR, Form.SCALAR):
            form = Form.SCALAR
        zero = left.zero_dim and (right.zero_dim or right.form is Form.SCALAR)
        if origins == left.origins and form is left.form:
            return Value(form, origins, (), "", zero, left.steps)
        if origins == right.origins and form is right.form:
            return Value(form, origins, (), "", zero, right.steps)
        steps = () if form is Form.SCALAR else (Step(Verb.MIXED, node, left.steps + right.steps),)
        return Value(form, origins, (), "", zero, steps)

    def unary(self, node: ast.UnaryOp, env: Environment) -> Value:
        """A sign, an inversion or ``not``."""
        operand = self.eval(node.operand, env)
        return scalar("bool") if isinstance(node.op, ast.Not) else same(operand)

    def boolean(self, node: ast.BoolOp, env: Environment) -> Value:
        """``a or b``: any arm; ``None`` only from the last."""
        result: Value | None = None
        value: Value | None
        within = env
        last = len(node.values) - 1
        for position, arm in enumerate(node.values):
            value = self.eval(arm, within)
            if position < last:
                if position == 0:
                    within = dict(env)
                truth = isinstance(node.op, ast.And)
                self.refine(arm, truth, within)
                if not truth:
                    value = without_none(value)
                    if value is None:
                        continue
            result = value if result is None else join(result, value)
        return result or UNKNOWN

    def comparison(self, node: ast.Compare, env: Environment) -> Value:
        """A comparison."""
        left = self.eval(node.left, env)
        rights = [self.eval(right, env) for right in node.comparators]
        if isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return scalar("bool")
        return compared(node, left, rights[0])

    def conditional(self, node: ast.IfExp, env: Environment) -> Value:
        """``a if test else b``."""
        self.eval(node.test, env)
        then, otherwise = dict(env), dict(env)
        self.refine(node.test, True, then)
        self.refine(node.test, False, otherwise)
        return join(self.eval(node.body, then), self.eval(node.orelse, otherwise))

    def walrus(self, node: ast.NamedExpr, env: Environment) -> Value:
        """``name := value``."""
        value = self.eval(node.value, env)
        self.bind(node.target, value, env)
        return env.get(node.target.id, value)

    def sequence(self, node: ast.Tuple | ast.List | ast.Set, env: Environment) -> Value:
        """A tuple, list or set display."""
        elements = [self.eval(element, env) for element in node.elts]
        if any(isinstance(element, ast.Starred) for element in node.elts):
            item = join_all(elements) or UNKNOWN
            return Value(Form.LIST, item_origins(item), (item,), steps=item.steps)
        if isinstance(node, ast.List) and not elements:
            return Value(Form.LIST)
        return Value(Form.TUPLE, elements=tuple(elements))

    def starred(self, node: ast.Starred, env: Environment) -> Value:
        """``*items``: one of the items."""
        return item_of(self.eval(node.value, env))

    def mapping(self, node: ast.Dict, env: Environment) -> Value:
        """A dict display."""
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                self.eval(key, env)
            self.eval(value, env)
        return OTHER

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, env: Environment) -> Value:
        """A comprehension: a list of what its element is."""
        inner = self._generators(node.generators, env)
        item = self.eval(node.elt, inner)
        return Value(Form.LIST, item_origins(item), (item,), "", False, item.steps)

    def dict_comprehension(self, node: ast.DictComp, env: Environment) -> Value:
        """A dict comprehension."""
        inner = self._generators(node.generators, env)
        self.eval(node.key, inner)
        self.eval(node.value, inner)
        return OTHER

    def _generators(self, generators: list[ast.comprehension], env: Environment) -> Environment:
        inner = dict(env)
        for generator in generators:
            self.bind(generator.target, item_of(self.eval(generator.iter, inner)), inner)
            for test in generator.ifs:
                self.eval(test, inner)
                self.refine(test, True, inner)
        return inner

    def lambda_(self, node: ast.Lambda, env: Environment) -> Value:
        """A lambda: its body is evaluated with unknown parameters."""
        inner = dict(env)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            inner[argument.arg] = UNKNOWN
        self.eval(node.body, inner)
        return OTHER

    def awaited(self, node: ast.Await, env: Environment) -> Value:
        """``await``."""
        return self.eval(node.value, env)

    def yielded(self, node: ast.Yield | ast.YieldFrom, env: Environment) -> Value:
        """``yield``: what is sent in is not known."""
        if node.value is not None:
            self.eval(node.value, env)
        return UNKNOWN

    def slice_(self, node: ast.Slice, env: Environment) -> Value:
        """A slice."""
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.eval(part, env)
        return OTHER


def _of_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)


def _is_attribute(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute)


def _read(form: Form, origins: Origins, node: ast.expr, path: str) -> Value:
    return Value(form, origins, (), path, False, (Step(Verb.READ, node),))


def _concatenated(left: Value, right: Value) -> Value:
    if left.form is Form.TUPLE and right.form is Form.TUPLE:
        return Value(Form.TUPLE, elements=left.elements + right.elements)
    items = [item_of(side) for side in (left, right) if item_origins(side)]
    item = join_all(items)
    if item is None:
        return left
    return Value(Form.LIST, item_origins(item), (item,), "", False, item.steps)


_Handler = Callable[[Expressions, ast.expr, Environment], Value]
_HANDLERS: dict[type[ast.AST], _Handler] = {
    ast.Name: Expressions.name,  # type: ignore[dict-item]
    ast.Constant: Expressions.constant,  # type: ignore[dict-item]
    ast.Attribute: Expressions.attribute,  # type: ignore[dict-item]
    ast.Call: call,  # type: ignore[dict-item]
    ast.Subscript: Expressions.subscript,  # type: ignore[dict-item]
    ast.BinOp: Expressions.binary,  # type: ignore[dict-item]
    ast.UnaryOp: Expressions.unary,  # type: ignore[dict-item]
    ast.BoolOp: Expressions.boolean,  # type: ignore[dict-item]
    ast.Compare: Expressions.comparison,  # type: ignore[dict-item]
    ast.IfExp: Expressions.conditional,  # type: ignore[dict-item]
    ast.NamedExpr: Expressions.walrus,  # type: ignore[dict-item]
    ast.Tuple: Expressions.sequence,  # type: ignore[dict-item]
    ast.List: Expressions.sequence,  # type: ignore[dict-item]
    ast.Set: Expressions.sequence,  # type: ignore[dict-item]
    ast.Starred: Expressions.starred,  # type: ignore[dict-item]
    ast.Dict: Expressions.mapping,  # type: ignore[dict-item]
    ast.ListComp: Expressions.comprehension,  # type: ignore[dict-item]
    ast.SetComp: Expressions.comprehension,  # type: ignore[dict-item]
    ast.GeneratorExp: Expressions.comprehension,  # type: ignore[dict-item]
    ast.DictComp: Expressions.dict_comprehension,  # type: ignore[dict-item]
    ast.Lambda: Expressions.lambda_,  # type: ignore[dict-item]
    ast.Await: Expressions.awaited,  # type: ignore[dict-item]
    ast.Yield: Expressions.yielded,  # type: ignore[dict-item]
    ast.YieldFrom: Expressions.yielded,  # type: ignore[dict-item]
    ast.Slice: Expressions.slice_,  # type: ignore[dict-item]
}
