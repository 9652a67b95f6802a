"""What names say about tensors: which hold activations and which hold indices or counts."""

from __future__ import annotations

import ast
import re

WHOLE = re.compile(
    r"(^|_)(ids?|idx|ind(ex|ices)|slots?|mapping|tables?|len(gth)?s?|tokens?|positions?|masks?|counts?|map|"
    r"offsets?|seq_?lens?|blocks?|order|inv|perm|rows|steps?|experts?|num|lora|cu|loc)(_|$)"
)
FLOATING = re.compile(
    r"embed|hidden|states?($|_)|feat|logit|(^|_)out(put)?s?($|_)|resid|norm|scale|prob|values?($|_)|cache|attn|pixel|"
    r"(^|_)[hx]($|_)|score|weight|grad|patch|soft"
)
PAIRED = re.compile(r"(^|_)(src|dst|source|dest|old|new|prev|from|to)(_|$)")


def subject(expr: ast.expr) -> str:
    """The name that tells what an expression holds: ``states`` of ``self.states[i].flatten()``."""
    while isinstance(expr, ast.Call | ast.Subscript | ast.BinOp):
        if isinstance(expr, ast.Call):
            inner = expr.func.value if isinstance(expr.func, ast.Attribute) else None
            first = expr.args[0] if expr.args else expr.func
            expr = first if inner is None or ast.unparse(inner).startswith("torch") else inner
        else:
            expr = expr.left if isinstance(expr, ast.BinOp) else expr.value
    return expr.attr if isinstance(expr, ast.Attribute) else expr.id if isinstance(expr, ast.Name) else ""


def holds_activations(target: str, value: str) -> bool:
    """Whether names say that floating values go into ``target``, not from a container into its like."""
    if WHOLE.search(target) or WHOLE.search(value) or not target or "cache" in value:
        return False
    if PAIRED.sub("_", target).strip("_") == PAIRED.sub("_", value).strip("_"):
        return False
    return bool(FLOATING.search(target) or FLOATING.search(value))


def may_index(index: ast.expr) -> bool:
    """Whether an index can be a tensor, by its syntax: not a loop variable, a key or an offset."""
    if isinstance(index, ast.Name | ast.Attribute):
        return len(subject(index)) > 3 and not re.search(r"(^|_)(key|name|idx|id|i|layer)$", subject(index))
    return isinstance(index, ast.Compare | ast.Call | ast.Subscript) or (
        isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.Invert)
    )
