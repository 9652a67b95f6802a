"""Places that fix an 8-bit floating format: its name, its largest value, what it is used for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.platforms import deciding_test
from dtypefix.analysis.scopes import last_name

NAMES = frozenset({"float8_e4m3fn", "float8_e4m3fnuz", "float8e4nv"})
LARGEST = 448.0

_AWARE = re.compile(r"fnuz|float8e4b8|e4b15|gfx9[04]", re.IGNORECASE)
_FNUZ = re.compile(r"torch\.float8_e4m3fnuz\b")
_OCP = re.compile(r"float8_e4m3fn\b|float8e4nv\b")
# A function that speaks of these works for another vendor's library, or on a format that a standard fixes.
_ELSEWHERE = re.compile(r"flashinfer|cutlass|trtllm|mxfp8|quantizedactivation", re.IGNORECASE)
# Where the format of a checkpoint is declared or kept.
_STORED = re.compile(
    r"(create|alloc|allocate)_weights|weight_loader|load_weight|_loader$|^fp8_dtype$|checkpoint|serialize|_from_gguf"
)
_SCALE = re.compile(r"scale|(^|_)sf\d*(_|$)|blockscale|fp4|^s\d?$", re.IGNORECASE)
_WEIGHT = re.compile(r"weight|^w\d*q?$|^w1\d$|_w$", re.IGNORECASE)
_ACTIVATION = re.compile(r"^(hidden_states|x|inputs?|query|q|a|a1|act|activations?)$")
_LIMIT = re.compile(r"(^|_)(fp8|float8|f8)\w*max$", re.IGNORECASE)
_QUANT = re.compile(r"(^|_)(quant|act)_d?type$")
_TARGET = re.compile(r"fp8|f8|quant_dtype|cache_dtype|^dtype$", re.IGNORECASE)
_CASTS = frozenset({"to", "view", "type", "cast", "pointer_type"})
_FACTORIES = frozenset(
    {"empty", "zeros", "ones", "full", "rand", "randn", "empty_like", "zeros_like", "ones_like", "full_like",
     "new_empty", "new_zeros", "new_ones", "new_full", "empty_strided", "tensor"}
)  # fmt: skip
_DTYPE_KEYWORDS = frozenset({"dtype", "quant_dtype", "out_dtype", "fp8_dtype", "quant_type"})


@dataclass(frozen=True, slots=True)
class Use:
    """One use: its node and what it does, in words.

    ``replaceable`` says that the name alone can be replaced, ``weak`` that callers may pass another
    format, ``choice`` that it is a comparison which chooses between formats.
    """

    node: ast.expr
    what: str
    replaceable: bool = False
    weak: bool = False
    choice: bool = False


def mentions(node: ast.AST) -> bool:
    """Whether a node names a format or its largest value, or asks for a format's limits."""
    if isinstance(node, ast.Attribute):
        return node.attr in NAMES
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float) and node.value == LARGEST
    return isinstance(node, ast.Call) and last_name(node.func) == "finfo"


def scope_of(module: Module, node: ast.AST) -> ast.AST | None:
    """The function that a node stands in, or the assignment at class or module level."""
    function = module.enclosing_function(node)
    if function is not None:
        return function
    statement = next((p for p in module.ancestors(node) if isinstance(p, ast.stmt)), None)
    return statement if isinstance(statement, ast.Assign | ast.AnnAssign) else None


def open_uses(module: Module, scope: ast.AST) -> list[Use]:
    """The uses in a scope that no test decides, none when it or a function around it knows better."""
    around = [scope, *(p for p in module.ancestors(scope) if isinstance(p, FunctionNode))]
    if any(settled(module, part) for part in around):
        return []
    return [use for use in uses(module, scope) if deciding_test(module, use.node) is None]


def settled(module: Module, scope: ast.AST) -> bool:
    """Whether a function, or a statement at module level, knows of the other format or cannot meet it."""
    text = module.text(scope)
    if not _OCP.search(text):
        text = _FNUZ.sub("", text)
    return bool(_AWARE.search(text))


def uses(module: Module, scope: ast.AST) -> Iterator[Use]:
    """The uses inside a scope in source order, nested functions left out.

    Left out as well: scales and weights, whose format the checkpoint decides; comparisons other than a
    choice by quantisation dtype or an assertion about an activation; tables of supported formats.
    """
    name = getattr(scope, "name", "")
    if _STORED.search(name):
        return
    platform = _platform_names(module, scope)
    todo: list[ast.AST] = list(ast.iter_child_nodes(scope))
    found: list[Use] = []
    while todo:
        node = todo.pop()
        if isinstance(node, FunctionNode | ast.ClassDef | ast.Lambda) and node is not scope:
            continue
        use = _use(module, node, platform)
        if use is not None:
            found.append(use)
        todo.extend(ast.iter_child_nodes(node))
    if found and _ELSEWHERE.search(_code(scope)):
        found = [use for use in found if use.choice]
    yield from sorted(found, key=lambda u: (u.node.lineno, u.node.col_offset))


def _code(scope: ast.AST) -> str:
    """The code of a scope without comments and docstring."""
    text = ast.unparse(scope)
    words = ast.get_docstring(scope, clean=False) if isinstance(scope, FunctionNode) else None
    return text.replace(words, "") if words else text


def _platform_names(module: Module, scope: ast.AST) -> set[str]:
    """Names bound, here or at module level, to what ``fp8_dtype()`` returns."""
    names: set[str] = set()
    statements = [*module.tree.body, *(n for n in ast.walk(scope) if isinstance(n, ast.Assign))]
    for statement in statements:
        if isinstance(statement, ast.Assign) and "fp8_dtype()" in ast.unparse(statement.value):
            names.update(t.id for t in statement.targets if isinstance(t, ast.Name))
    return names


def _use(module: Module, node: ast.AST, platform: set[str]) -> Use | None:
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        return _named(module, node)
    if isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value == LARGEST:
        return _limit(module, node)
    inside = module.enclosing_function(node) is not None
    if inside and isinstance(node, ast.Call) and last_name(node.func) == "finfo" and len(node.args) == 1:
        argument = node.args[0]
        direct = isinstance(argument, ast.Call) and last_name(argument.func) == "fp8_dtype"
        keyed = ast.unparse(argument).endswith("quant_key.dtype")
        told = isinstance(argument, ast.Name) and argument.id in ("quant_dtype", "fp8_dtype")
        function = module.enclosing_function(node)
        if told and function is not None and _scales_to_limit(module.text(function)):
            return Use(
                node, "takes the format's own limit, 240 for e4m3fnuz, where vLLM uses 224", weak=not inside
            )
        if direct or keyed or (isinstance(argument, ast.Name) and argument.id in platform):
            return Use(
                node, "takes 240 for the largest value of e4m3fnuz, which loses accuracy; vLLM uses 224"
            )
    return None


def _scales_to_limit(text: str) -> bool:
    """Whether a function derives a scale from data and a format's limit, and not from vLLM's own limits."""
    return "get_fp8_min_max" not in text and bool(re.search(r"amax|aminmax|\.abs\(\)", text))


def _named(module: Module, node: ast.Attribute) -> Use | None:
    parent = module.parents[node]
    if isinstance(parent, ast.Compare):
        return _compared(module, node, parent)
    fn = f"`{ast.unparse(node)}`"
    if isinstance(parent, ast.IfExp) and node is not parent.test:
        outer = module.parents[parent]
        return _in_call(module, node, parent, outer, fn)
    return _in_call(module, node, node, parent, fn)


def _in_call(module: Module, node: ast.Attribute, value: ast.expr, parent: ast.AST, fn: str) -> Use | None:
    triton = node.attr == "float8e4nv"
    if isinstance(parent, ast.keyword):
        call = module.parents[parent]
        if not isinstance(call, ast.Call) or parent.arg not in _DTYPE_KEYWORDS:
            return None
    elif isinstance(parent, ast.Call) and value is not parent.func:
        call = parent
    elif isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr):
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        names = [n for t in targets if (n := root_name(t))]
        if any(_TARGET.search(n) and not _kept(n) for n in names):
            return Use(node, f"{fn} is taken for the platform's format", not triton)
        return None
    elif isinstance(parent, ast.Return):
        return Use(node, f"{fn} is returned for the platform's format", not triton)
    elif isinstance(parent, ast.arguments):
        return Use(node, f"{fn} is the default", not triton, weak=True)
    else:
        return None
    called = last_name(call.func)
    if called == "finfo":
        sentinel = any(isinstance(p, ast.Compare) for p in _expressions(module, call))
        return (
            None
            if sentinel or _fourbit(module, call)
            else Use(node, f"the limits of {fn} are taken", not triton)
        )
    if called in _CASTS:
        subject = (
            call.func.value if isinstance(call.func, ast.Attribute) and not triton_module(call.func) else None
        )
        subject = subject or next((a for a in call.args if a is not value), None)
        if subject is not None and (_kept(root_name(subject)) or _six(subject)):
            return None
        if _kept(_bound_to(module, call)) or _round_trip(module, call):
            return None
        return Use(node, f"data is turned into {fn}", not triton)
    if called in _FACTORIES:
        if _kept(_bound_to(module, call)) or _stored(module, call):
            return None
        return Use(node, f"a tensor is made in {fn}", not triton)
    if triton or (isinstance(parent, ast.keyword) and parent.arg == "dtype"):
        return None
    if any(isinstance(p, ast.Dict | ast.List | ast.Tuple | ast.Set) for p in _expressions(module, call)):
        return None
    if called and (called[:1].isupper() or called == "make") and not _kept(called):
        return Use(node, f"{called} is told {fn}", True)
    return None


def _compared(module: Module, node: ast.Attribute, compare: ast.Compare) -> Use | None:
    if len(compare.ops) != 1 or not isinstance(compare.ops[0], ast.Eq | ast.NotEq):
        return None
    other = compare.left if compare.left is not node else compare.comparators[0]
    fn = f"`{ast.unparse(node)}`"
    if _QUANT.search(root_name(other)):
        return Use(node, f"the choice of what to do is made by {fn} alone", True, choice=True)
    parent = module.parents[compare]
    holder = root_name(other.value) if isinstance(other, ast.Attribute) else ""
    chosen = isinstance(parent, ast.If) and bool(_ACTIVATION.search(holder))
    if (
        (chosen or isinstance(parent, ast.Assert))
        and isinstance(other, ast.Attribute)
        and other.attr == "dtype"
    ):
        if holder and not _kept(holder):
            return Use(node, f"`{holder}` is expected in {fn} only", True, choice=True)
    return None


def _limit(module: Module, node: ast.Constant) -> Use | None:
    what = "448 is the largest value of e4m3fn, not of every platform's format"
    value: ast.expr = node
    parent = module.parents[node]
    while isinstance(parent, ast.UnaryOp | ast.IfExp) and value is not getattr(parent, "test", None):
        value, parent = parent, module.parents[parent]
    if isinstance(parent, ast.keyword):
        return Use(node, what) if parent.arg and _LIMIT.search(parent.arg) else None
    if isinstance(parent, ast.Assign | ast.AnnAssign):
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        return Use(node, what) if any(_LIMIT.search(root_name(t)) for t in targets) else None
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and value is parent.right:
        return None if _fourbit(module, parent) else Use(node, what)
    if isinstance(parent, ast.Call) and last_name(parent.func) in ("clamp", "div_rn", "fdiv"):
        return (
            None if _kept(_bound_to(module, parent)) and "clamp" in ast.unparse(parent) else Use(node, what)
        )
    return None


def _expressions(module: Module, node: ast.AST) -> Iterator[ast.expr]:
    """The expressions around a node, up to its statement."""
    for parent in module.ancestors(node):
        if isinstance(parent, ast.stmt):
            return
        if isinstance(parent, ast.expr):
            yield parent


def _kept(name: str) -> bool:
    """Whether a name speaks of scales or weights, whose format is not the platform's to choose."""
    return bool(name) and bool(_SCALE.search(name) or _WEIGHT.search(name))


def _six(expr: ast.expr) -> bool:
    """Whether 6, the largest value of a 4-bit float, takes part: a scale of a 4-bit format."""
    return any(isinstance(n, ast.Constant) and n.value == 6.0 for n in ast.walk(expr))


def _fourbit(module: Module, expr: ast.expr) -> bool:
    """Whether the statement around an expression reckons with a 4-bit format."""
    for parent in module.ancestors(expr):
        if isinstance(parent, ast.stmt):
            text = ast.unparse(parent)
            return "fp4" in text.lower() or "e2m1" in text.lower() or bool(re.search(r"\b6(\.0)?\b", text))
    return False


def _round_trip(module: Module, call: ast.Call) -> bool:
    """Whether a cast is undone at once, ``x.to(fp8).to(float32)``: rounding that nobody else sees."""
    method = module.parents[call]
    bits = any(k.arg == "bitcast" for k in call.keywords) or last_name(call.func) == "view"
    return (
        isinstance(method, ast.Attribute) and method.attr in ("to", "float", "bfloat16", "half") and not bits
    )


def _bound_to(module: Module, expr: ast.expr) -> str:
    """The name that an expression, or a chain of calls on it, is bound or passed to."""
    below: ast.AST = expr
    for parent in module.ancestors(expr):
        if isinstance(parent, ast.Attribute | ast.Call | ast.Subscript | ast.IfExp):
            below = parent
            continue
        if isinstance(parent, ast.keyword):
            return parent.arg or ""
        if isinstance(parent, ast.Assign):
            return root_name(parent.targets[0])
        if isinstance(parent, ast.AnnAssign):
            return root_name(parent.target)
        break
    del below
    return ""


def _stored(module: Module, expr: ast.expr) -> bool:
    """Whether a tensor is made to be a parameter or a buffer, which a checkpoint fills."""
    for parent in module.ancestors(expr):
        if isinstance(parent, ast.Call) and re.search(
            r"Parameter$|register_\w+$|^param$", last_name(parent.func)
        ):
            return True
        if isinstance(parent, ast.stmt):
            break
    return False


def triton_module(func: ast.Attribute) -> bool:
    """Whether a call is one of a module (``tl.cast``) rather than a method."""
    return isinstance(func.value, ast.Name) and func.value.id in ("tl", "torch", "triton", "gl", "ttgl")


def root_name(expr: ast.AST) -> str:
    """The name that an expression starts from: ``x`` of ``x[0].view(...)``, ``buffer`` of ``self.buffer``."""
    while True:
        if isinstance(expr, ast.Name):
            return expr.id
        if isinstance(expr, ast.Attribute):
            return expr.attr
        if isinstance(expr, ast.Subscript | ast.Starred):
            expr = expr.value
        elif isinstance(expr, ast.Call):
            func = expr.func
            if isinstance(func, ast.Attribute) and not triton_module(func):
                expr = func.value
            elif expr.args:
                expr = expr.args[0]
            else:
                return last_name(func)
        elif isinstance(expr, ast.BinOp):
            expr = expr.left
        elif isinstance(expr, ast.UnaryOp):
            expr = expr.operand
        else:
            return ""


def converted_unseen(module: Module, call: ast.Call) -> str | None:
    """The parameter whose e4m3fn bits a call converts although nothing looked at its dtype, or None."""
    function = module.enclosing_function(call)
    arguments = [*(k.value for k in call.keywords if k.arg == "weight"), *call.args]
    if function is None or not arguments or function.name == last_name(call.func):
        return None
    weight = arguments[0]
    parameters = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
    if not isinstance(weight, ast.Name) or weight.id not in parameters:
        return None
    return None if f"{weight.id}.dtype" in ast.unparse(function) else weight.id
