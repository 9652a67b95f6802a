"""Operands of matrix products, and other places where two dtypes of different origin meet."""

from __future__ import annotations

import ast
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


def states_of_another(call: ast.Call, rows: Sequence[Mapping[str, Any]]) -> tuple[ast.expr, str] | None:
    """An argument of a submodule's call that another model made, as the pack's table tells."""
    func = call.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name) or func.value.id != "self":
        return None
    for argument in call.args:
        text = ast.unparse(argument)
        for row in rows:
            if isinstance(argument, ast.Attribute) and text.endswith(row["suffix"]):
                return argument, str(row["what"])
    return None


def uncast_delta(flow: Flow, node: ast.BinOp) -> ast.expr | None:
    """The side of a sum that was multiplied by LoRA weights and not cast to the base output's dtype."""
    for base, delta in ((node.left, node.right), (node.right, node.left)):
        made = flow.plain(base)
        call = next(
            (s.node for s in made.chain() if s.verb is Verb.CALL and isinstance(s.node, ast.Call)), None
        )
        if call is None or not ast.unparse(call.func).startswith("self.base_layer"):
            continue
        value = flow.plain(delta)
        if value.form not in (Form.TENSOR, Form.ANY) or _is_narrowed(flow, node):
            continue
        lora = any(_mentions_lora(s.node) for s in value.chain()) or _mentions_lora(delta)
        if lora and not value.same_dtype(made) and not _cast_to(delta, base):
            return delta
    return None


def _is_narrowed(flow: Flow, node: ast.BinOp) -> bool:
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


def _cast_to(delta: ast.expr, base: ast.expr) -> bool:
    return isinstance(delta, ast.Call) and last_name(delta.func) in _CASTS
