"""Operands of matrix products, and other places where two dtypes of different origin meet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dtypefix.analysis import promotion
from dtypefix.analysis.flow import Flow
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import Form, Kind, Value, Verb
from dtypefix.analysis.project import Project
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.walking import walk

_PRODUCTS = {"linear": 2, "matmul": 2, "mm": 2, "bmm": 2, "addmm": 3, "baddbmm": 3}
_JOINS = ("cat", "concat", "concatenate", "stack")
# How layers that wrap another one call it.
_BASE = re.compile(r"self\.(base|orig|wrapped|inner)\w*|super\(\)")
_CASTS = frozenset({"to", "type", "type_as", "half", "bfloat16"})
_OWNERS = ("torch", "F", "torch.nn.functional", "nn.functional")


@dataclass(frozen=True, slots=True)
class Product:
    """The two operands whose dtypes torch compares."""

    left: ast.expr
    right: ast.expr


def products(node: ast.AST) -> Iterator[Product]:
    """The product that a node is: ``F.linear(x, w)``, ``torch.matmul(a, b)``, ``a @ b``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield Product(node.left, node.right)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        count = _PRODUCTS.get(node.func.attr)
        if any(k.arg == "out" for k in node.keywords):
            return
        if count is not None and ast.unparse(node.func.value) in _OWNERS and len(node.args) >= count:
            yield Product(node.args[count - 2], node.args[count - 1])


def clash(
    project: Project, module: Module, product: Product, left: Value, right: Value
) -> tuple[ast.expr, ast.expr, str] | None:
    """The operand of a fixed half dtype, the one that comes in as it is, and the fixed dtype."""
    sides = ((product.left, left, product.right, right), (product.right, right, product.left, left))
    for fixed, value, given, other in sides:
        literal = value.literal or _made(project, module, value)
        if literal not in ("bfloat16", "float16"):
            continue
        if other.only is None or other.only.kind is not Kind.PARAMETER or _tested(other) or _tested(value):
            continue
        if promotion.category(literal) == "float":
            return fixed, given, literal
    return None


def _made(project: Project, module: Module, value: Value) -> str | None:
    """The dtype of what a function of another file returns, when it always returns the same one."""
    only = value.only
    if only is None or only.kind is not Kind.OUTPUT or not value.steps:
        return None
    call = next(
        (s.node for s in reversed(value.chain()) if s.verb is Verb.CALL and isinstance(s.node, ast.Call)),
        None,
    )
    found = project.resolve(module, call.func) if call is not None else None
    if found is None or not isinstance(found.node, FunctionNode):
        return None
    returned = {r.value.literal for r in project.flows(found.module).function(found.node).returns()}
    return returned.pop() if len(returned) == 1 else None


def _tested(value: Value) -> bool:
    return any(step.verb is Verb.TESTED for step in value.chain())


def states_of_another(
    flow: Flow, call: ast.Call, rows: Sequence[Mapping[str, Any]]
) -> tuple[ast.expr, str] | None:
    """An argument of a submodule's call that another model made, as the pack's table tells.

    What is joined by ``torch.cat`` or ``torch.stack`` in the argument counts as well.
    """
    func = call.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name) or func.value.id != "self":
        return None
    for argument in _joined([*call.args, *(k.value for k in call.keywords)]):
        value = flow.value(argument)
        origins = value.origins
        # What came out of another layer was judged where it went in.
        if not all(o.foreign for o in origins) or any(s.verb is not Verb.BOUND for s in value.chain()):
            continue
        for row in rows:
            if any(
                o.kind is Kind.ATTRIBUTE and f".{o.detail}".endswith(f".{row['suffix']}") for o in origins
            ):
                return argument, str(row["what"])
    return None


def handed_on(module: Module, attribute: str) -> Iterator[ast.Call]:
    """Calls that are given an attribute of another object than ``self``, or a local name for it."""
    bound: dict[ast.AST | None, set[str]] = {}
    for node in module.nodes(ast.Attribute):
        if not isinstance(node, ast.Attribute) or node.attr != attribute or ast.unparse(node.value) == "self":
            continue
        around: ast.AST | None = next(
            (p for p in module.ancestors(node) if isinstance(p, ast.Call | ast.stmt)), None
        )
        while isinstance(around, ast.Call) and last_name(around.func) in _JOINS:
            around = module.parents.get(around)
        if isinstance(around, ast.Call):
            yield around
        elif isinstance(around, ast.Assign) and isinstance(around.targets[0], ast.Name):
            bound.setdefault(module.enclosing_function(node), set()).add(around.targets[0].id)
    for call in module.nodes(ast.Call) if bound else ():
        names = bound.get(module.enclosing_function(call), set()) if isinstance(call, ast.Call) else set()
        if names and isinstance(call, ast.Call):
            given = _joined([*call.args, *(k.value for k in call.keywords)])
            if any(isinstance(a, ast.Name) and a.id in names for a in given):
                yield call


def _joined(arguments: Sequence[ast.expr]) -> Iterator[ast.expr]:
    for argument in arguments:
        yield argument
        if isinstance(argument, ast.Call) and last_name(argument.func) in _JOINS and argument.args:
            if isinstance(argument.args[0], ast.Tuple | ast.List):
                yield from argument.args[0].elts


def is_sum(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The sides of a sum that makes a new tensor: ``a + b``, ``torch.add(a, b)`` and ``a.add(b)``."""
    if isinstance(node, ast.BinOp):
        return (node.left, node.right) if isinstance(node.op, ast.Add) else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "add":
        return None
    if ast.unparse(node.func.value) == "torch":
        return (node.args[0], node.args[1]) if len(node.args) == 2 else None
    return (node.func.value, node.args[0]) if len(node.args) == 1 else None


def in_lora(module: Module, node: ast.AST) -> bool:
    """Whether a node is a sum in a class that is named after LoRA."""
    owner = module.enclosing_class(node) if is_sum(node) is not None else None
    return owner is not None and "lora" in owner.name.lower()


def uncast_delta(flow: Flow, node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The sides of a sum: a base layer's output, and what LoRA weights made, not cast to its dtype."""
    sides = is_sum(node)
    for base, delta in (sides, sides[::-1]) if sides is not None else ():
        made = flow.plain(base)
        call = next(
            (s.node for s in made.chain() if s.verb is Verb.CALL and isinstance(s.node, ast.Call)), None
        )
        if call is None or not _BASE.match(ast.unparse(call.func)):
            continue
        value = flow.plain(delta)
        if value.form not in (Form.TENSOR, Form.ANY) or _is_narrowed(flow, node):
            continue
        lora = any(_mentions_lora(s.node) for s in value.chain()) or _mentions_lora(delta)
        if lora and not value.same_dtype(made) and not _is_cast(delta):
            return base, delta
    return None


def _is_narrowed(flow: Flow, node: ast.expr) -> bool:
    """Whether a sum is cast before it leaves the function, and so is made in the wider dtype on purpose."""
    parents = flow.module.parents
    parent = parents.get(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _CASTS
    names = (
        [t.id for t in parent.targets if isinstance(t, ast.Name)] if isinstance(parent, ast.Assign) else []
    )
    return any(
        isinstance(n, ast.Attribute)
        and n.attr in _CASTS
        and isinstance(n.value, ast.Name)
        and n.value.id in names
        and n.lineno > node.lineno
        for n in (walk(flow.node) if isinstance(flow.node, FunctionNode) else ())
    )


def _mentions_lora(node: ast.AST) -> bool:
    names = (
        n.id if isinstance(n, ast.Name) else n.attr
        for n in ast.walk(node)
        if isinstance(n, ast.Name | ast.Attribute)
    )
    return any("lora" in name.lower() or name == "delta" for name in names)


def _is_cast(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Call) and last_name(expr.func) in _CASTS
