"""What a class hands to its submodules, and what it shows of the dtype that they expect."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from dtypefix.analysis.classes import ClassRef
from dtypefix.analysis.flow import Flow, Flows
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import Form, Kind, Value
from dtypefix.analysis.witness import path_of

RAW = re.compile(r"pixel|feature|embeds?($|_)|image|audio|video|waveform|mel|patches")
WHOLE = re.compile(
    r"(^|_)(ids?|mask|grid|thw|len(gth)?s?|lens|sizes?|shape|num|counts?|positions?|ind(ex|ices)|idx|type|hashes|"
    r"rotary|cu|spatial|is|max|token|tokens|config|kwargs)(_|$)|^inputs?$"
)
_CASTS = frozenset({"to", "type", "type_as"})


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """A call of ``self.<path>`` in a method, with the argument that carries the data."""

    method: FunctionNode
    call: ast.Call
    path: tuple[str, ...]
    argument: ast.expr


def module_calls(module: Module) -> dict[ast.ClassDef, list[ModuleCall]]:
    """The calls of submodules that get something named like raw data, by class."""
    found: dict[ast.ClassDef, list[ModuleCall]] = {}
    for node in module.nodes(ast.Call):
        path = path_of(node.func)
        argument = _data(node) if path is not None and not path[0].startswith("_") else None
        if path is None or argument is None:
            continue
        method = module.enclosing_function(node)
        while method is not None and not isinstance(owner := module.parents.get(method), ast.ClassDef):
            method = module.enclosing_function(method)
        if method is None or method.name == "__init__" or not isinstance(owner, ast.ClassDef):
            continue
        if not any(isinstance(m, FunctionNode) and m.name == path[0] for m in owner.body):
            found.setdefault(owner, []).append(ModuleCall(method, node, path, argument))
    return found


def _data(call: ast.Call) -> ast.expr | None:
    """The first argument, if its name says that it is raw data."""
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg and RAW.search(k.arg))]
    for argument in given:
        name = _name(argument)
        if name and RAW.search(name) and not WHOLE.search(name):
            return argument
    return None


def _name(expr: ast.expr) -> str:
    """A plain name, or the key of ``x["key"]``; casts around it are seen through."""
    while isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute) and expr.func.attr in _CASTS:
        expr = expr.func.value
    if isinstance(expr, ast.Subscript) and isinstance(expr.slice, ast.Constant):
        return str(expr.slice.value)
    return expr.id if isinstance(expr, ast.Name) else ""


def is_raw(value: Value) -> bool:
    """Whether a value still has the dtype that a caller or a container gave it."""
    return value.form in (Form.TENSOR, Form.ANY) and value.must_be(Kind.PARAMETER, Kind.ITEM)


def dtype_read(method: FunctionNode, path: tuple[str, ...]) -> ast.Attribute | None:
    """A read of the dtype of ``self.<path>``, or of something inside it, in a method."""
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and node.attr == "dtype":
            found = path_of(node)
            if found is not None and found[: len(path)] == path:
                return node
    return None


def casting_twin(
    flows_of: dict[FunctionNode, Flow], calls: list[ModuleCall], this: ModuleCall
) -> tuple[ModuleCall, ast.Call] | None:
    """Another method's call of the same submodule whose argument was cast, and the cast."""
    for other in calls:
        if other.path != this.path or other.method is this.method:
            continue
        flow = flows_of[other.method]
        for cast in flow.casts(other.argument):
            if (
                isinstance(cast.func, ast.Attribute)
                and cast.func.attr in _CASTS
                and "dtype" in ast.unparse(cast)
            ):
                return other, cast
    return None


def wanted_dtype(
    flows: Flows, found: ModuleCall, calls: list[ModuleCall], *, resolved: bool
) -> tuple[ast.expr | None, ast.AST, str, str] | None:
    """What a class shows of the dtype that a submodule wants, if anything.

    Args:
        flows: the flows of the file.
        found: the call of the submodule that hands over raw data.
        calls: all such calls of the class.
        resolved: whether the submodule's class is in reach. A tower of another library may cast its
            own input, so that only a twin that casts speaks against it.

    Returns:
        The expression of the dtype if there is one, the place that shows it, what that place says, and
        why the call is at odds with it.
    """
    layer = "self." + ".".join(found.path)
    twin = casting_twin({c.method: flows.at(c.call) for c in calls}, calls, found)
    if twin is not None:
        other, cast = twin
        keyword = next((k.value for k in cast.keywords if k.arg == "dtype"), None)
        shows = f"{other.method.name} casts what it hands to {layer}"
        return cast.args[0] if cast.args else keyword, cast, shows, f"where {other.method.name} casts it"
    read = dtype_read(found.method, found.path) if resolved else None
    if read is None:
        return None
    shows = f"the dtype of {layer} is read here, for another value"
    return read, read, shows, f"though {ast.unparse(read)} is at hand"


def casts_itself(cls: ClassRef, path: tuple[str, ...]) -> bool | None:
    """Whether what ``self.<path>`` calls casts its own input first; None when its class is not in reach."""
    holders = [cls]
    for attribute in path:
        following = [b.cls for h in holders for b in h.constructions(attribute) or () if b.cls is not None]
        method = holders[0].method(attribute) if holders and not following else None
        if method is not None:
            return _casts_first(method[0], method[1], 0)
        holders = following
    forwards = [found for holder in holders if (found := holder.method("forward")) is not None]
    return any(_casts_first(owner, forward, 0) for owner, forward in forwards) if forwards else None


def _casts_first(owner: ClassRef, function: FunctionNode, depth: int) -> bool:
    """Whether a method casts its first parameter: itself, by telling a dtype, or in what it is handed to."""
    names = [a.arg for a in function.args.args if a.arg != "self"]
    if not names:
        return False
    derived = {names[0]}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and _roots(node.value) & derived:
            derived |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        given = [*node.args, *(k.value for k in node.keywords)]
        if node.func.attr in _CASTS and _root(node.func.value) in derived and "dtype" in ast.unparse(node):
            return True
        if not any(_root(argument) in derived for argument in given[:1]):
            continue
        if any(ast.unparse(argument).endswith("dtype") for argument in given[1:]):
            return True
        path = path_of(node.func)
        if depth < 2 and path is not None and len(path) == 1:
            for built in owner.constructions(path[0]) or ():
                found = built.cls.method("forward") if built.cls is not None else None
                if found is not None and _casts_first(found[0], found[1], depth + 1):
                    return True
            found = owner.method(path[0])
            if found is not None and _casts_first(found[0], found[1], depth + 1):
                return True
    return False


def callers_cast(flows: Flows, owner: ast.ClassDef, found: ModuleCall, value: Value) -> bool:
    """Whether every method of the class that calls this one casts what becomes the argument."""
    parameters = {o.detail for o in value.origins if o.kind is Kind.PARAMETER}
    names = [a.arg for a in found.method.args.args][1:]
    seen = False
    for node in ast.walk(owner):
        if not isinstance(node, ast.Call) or path_of(node.func) != (found.method.name,):
            continue
        given = [k.value for k in node.keywords if k.arg in parameters]
        given += [a for a, name in zip(node.args, names, strict=False) if name in parameters]
        if not given or not all(flows.at(argument).casts(argument) for argument in given):
            return False
        seen = True
    return seen


def _roots(expr: ast.expr) -> set[str]:
    """Names that an expression starts from, receivers and first arguments."""
    if isinstance(expr, ast.Call) and expr.args:
        return {_root(expr), _root(expr.args[0])}
    return {_root(expr)}


def _root(expr: ast.expr) -> str:
    while isinstance(expr, ast.Call | ast.Attribute | ast.Subscript):
        expr = expr.func if isinstance(expr, ast.Call) else expr.value
    return expr.id if isinstance(expr, ast.Name) else ""
