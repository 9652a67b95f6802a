"""In which dtype a router hands its logits to the experts, and who says so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dtypefix.analysis.classes import ClassRef, Construction
from dtypefix.analysis.module import FunctionNode
from dtypefix.analysis.reaching import bindings, parameter_names
from dtypefix.analysis.walking import children, walk
from dtypefix.analysis.witness import path_of
from dtypefix.findings import Evidence

FLOAT32 = "torch.float32"
_FLOAT32_NAMES = frozenset({"float32", "fp32"})
_SAME = frozenset({"view", "reshape", "contiguous", "squeeze", "unsqueeze", "flatten", "clone", "detach"})
_DTYPE_ARGUMENTS = ("out_dtype", "params_dtype", "dtype")
_SETTER = "set_out_dtype"
_DEPTH = 6


@dataclass(frozen=True, slots=True)
class Logits:
    """Float32 logits: ``dtype`` is the expression, readable in the constructor, that decided it.

    ``rounded`` is the cast that brings them back to the activation's dtype, if there is one, and
    ``late`` the call that sets the layer's output dtype after it was built.
    """

    dtype: str
    evidence: tuple[Evidence, ...]
    rounded: ast.AST | None = None
    late: ast.AST | None = None


class LogitsTracer:
    """Follows an expression of ``cls`` back to a float32 source; None when none is seen."""

    def __init__(self, cls: ClassRef) -> None:
        self.cls = cls
        self.project = cls.project

    def of(self, expr: ast.expr, owner: ClassRef | None = None, depth: int = 0) -> Logits | None:
        """How ``expr``, in a method of ``owner``, comes to be float32."""
        owner = owner or self.cls
        if depth > _DEPTH:
            return None
        if isinstance(expr, ast.Name):
            for binding in bindings(owner.module, expr.id, expr):
                found = self.of(binding.value, owner, depth + 1) if binding.index in (None, 0) else None
                if found is not None:
                    return found
            return None
        if isinstance(expr, ast.Call):
            return self._call(expr, owner, depth)
        if isinstance(expr, ast.BinOp):
            return self.of(expr.left, owner, depth + 1) or self.of(expr.right, owner, depth + 1)
        if isinstance(expr, ast.Subscript):
            return self.of(expr.value, owner, depth + 1)
        return None

    def _call(self, call: ast.Call, owner: ClassRef, depth: int) -> Logits | None:
        func = call.func
        path = path_of(func)
        if path is not None and len(path) == 1:
            method = owner.method(path[0])
            if method is not None:
                return self._returned(*method, depth)
            return self._layer(owner, path[0], call, depth)
        if not isinstance(func, ast.Attribute):
            return None
        if func.attr == "float" and not call.args:
            text = f"`{ast.unparse(func.value)}` is made float32"
            return Logits(FLOAT32, (Evidence(owner.module.path, call.lineno, text),))
        if func.attr == "to":
            return self._cast(call, func.value, owner, depth)
        if func.attr in _SAME:
            return self.of(func.value, owner, depth + 1)
        qualified = self.project.qualified(owner.module, func) or ""
        if qualified.startswith("torch.") and call.args:
            return self.of(call.args[0], owner, depth + 1)
        return None

    def _cast(self, call: ast.Call, operand: ast.expr, owner: ClassRef, depth: int) -> Logits | None:
        dtype = next(
            (k.value for k in call.keywords if k.arg == "dtype"), call.args[0] if call.args else None
        )
        if dtype is None:
            return self.of(operand, owner, depth + 1)
        if self._names_float32(dtype, owner, depth):
            text = f"`{ast.unparse(operand)}` is cast to `{ast.unparse(dtype)}`"
            return Logits(ast.unparse(dtype), (Evidence(owner.module.path, call.lineno, text),))
        found = self.of(operand, owner, depth + 1)
        if found is None or not (isinstance(dtype, ast.Attribute) and dtype.attr == "dtype"):
            return found
        text = f"they are rounded to `{ast.unparse(dtype)}`"
        step = Evidence(owner.module.path, call.lineno, text)
        return replace(found, evidence=(*found.evidence, step), rounded=call)

    def layer(self, attribute: str, call: ast.AST) -> Logits | None:
        """How what the layer ``self.<attribute>`` returns comes to be float32."""
        return self._layer(self.cls, attribute, call, 0)

    def _layer(self, owner: ClassRef, attribute: str, call: ast.AST, depth: int) -> Logits | None:
        for built in owner.constructions(attribute) or ():
            found = self._built(owner, built, attribute, depth)
            if found is not None:
                text = f"`self.{attribute}` computes the logits"
                step = Evidence(owner.module.path, call.lineno, text)  # type: ignore[attr-defined]
                return replace(found, evidence=(*found.evidence, step))
        return self._set_later(owner, attribute, depth)

    def _set_later(self, owner: ClassRef, attribute: str, depth: int) -> Logits | None:
        """A float32 output dtype that a method of the layer is given after it was built."""
        for method in owner.own_methods.values():
            for node in ast.walk(method):
                if (
                    not isinstance(node, ast.Call)
                    or path_of(node.func) != (attribute, _SETTER)
                    or not node.args
                ):
                    continue
                if self._names_float32(node.args[0], owner, depth):
                    text = f"`self.{attribute}` is set to return `{ast.unparse(node.args[0])[:60]}`"
                    step = Evidence(owner.module.path, node.lineno, text)
                    return Logits(f"self.{attribute}.out_dtype", (step,), late=node)
        return None

    def _built(self, owner: ClassRef, built: Construction, attribute: str, depth: int) -> Logits | None:
        for name in _DTYPE_ARGUMENTS:
            argument = built.argument(name)
            if argument is not None and self._names_float32(argument, owner, depth):
                text = f"`self.{attribute}` is built with {name}={ast.unparse(argument)}"
                return Logits(ast.unparse(argument), (Evidence(built.module.path, built.call.lineno, text),))
            if argument is not None and name == "out_dtype":
                return None
        inner = built.cls
        forward = inner.method("forward") if inner is not None else None
        if inner is None or forward is None or inner.defines("params_dtype") is not None or depth > 2:
            return None
        found = self._returned(inner, forward[1], depth)
        if found is not None and found.dtype != FLOAT32:
            argument = built.argument(found.dtype)
            if argument is None or not self._names_float32(argument, owner, depth):
                return None
            found = replace(found, dtype=ast.unparse(argument))
        return found

    def _returned(self, owner: ClassRef, function: FunctionNode, depth: int) -> Logits | None:
        for node in walk(function):
            value = node.value if isinstance(node, ast.Return) else None
            if isinstance(value, ast.Tuple) and value.elts:
                value = value.elts[0]
            if value is not None:
                found = self.of(value, owner, depth + 1)
                if found is not None:
                    return found
        return None

    def _names_float32(self, expr: ast.expr, owner: ClassRef, depth: int) -> bool:
        """Whether a dtype expression is, or may be, float32 by the class's own choice."""
        if depth > _DEPTH:
            return False
        for node in _values(expr):
            if isinstance(node, ast.Attribute):
                if self.project.qualified(owner.module, node) in (FLOAT32, "torch.float"):
                    return True
                path = path_of(node)
                if path is not None and len(path) == 1:
                    for value in owner.attribute_values(path[0]):
                        if self._names_float32(value.value, value.owner, depth + 1):
                            return True
            elif isinstance(node, ast.Constant) and node.value in _FLOAT32_NAMES:
                return True
            elif isinstance(node, ast.Name):
                for binding in bindings(owner.module, node.id, node):
                    if self._names_float32(binding.value, owner, depth + 1):
                        return True
                # Of a router module of its own: its builder's argument is looked at by the caller.
                function = owner.module.enclosing_function(node)
                if owner is not self.cls and function is not None and node.id in parameter_names(function):
                    return True
        return False


def _values(expr: ast.expr) -> Iterator[ast.AST]:
    """The parts of an expression that can be its value, tests left out."""
    todo: list[ast.AST] = [expr]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Compare):
            continue
        yield node
        if isinstance(node, ast.IfExp):
            todo += [node.body, node.orelse]
        elif not isinstance(node, ast.Attribute):
            todo += [c for c in children(node) if isinstance(c, ast.expr | ast.keyword)]
