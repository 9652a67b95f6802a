"""How a class brings a cached buffer to the dtype of an argument: its matchers, and where they are used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dtypefix.analysis.classes import ClassRef
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.walking import walk

_BUFFER = re.compile(r"(^|_)(cos|sin|freqs|rope|rotary)(_|$)")
CASTS = frozenset({"to", "type_as", "type", "float"})


@dataclass(frozen=True, slots=True)
class Matcher:
    """A method that casts ``self.<buffer>`` to the dtype of its argument.

    ``returns`` says that it always hands the cast buffer back, ``stores`` that ``self.<buffer>``
    surely holds it afterwards.
    """

    owner: ClassRef
    method: FunctionNode
    returns: bool
    stores: bool


@dataclass(frozen=True, slots=True)
class Match:
    """A place that brings the buffer to the dtype of the name ``like``.

    ``node`` is the cast or the call of the matcher; ``matcher`` is None for a cast in place.
    """

    node: ast.Call
    like: str
    matcher: Matcher | None


def is_self(expr: ast.AST, attribute: str) -> bool:
    """Whether an expression is ``self.<attribute>``."""
    return (
        isinstance(expr, ast.Attribute)
        and expr.attr == attribute
        and isinstance(expr.value, ast.Name)
        and expr.value.id == "self"
    )


def casts(function: FunctionNode, buffer: str) -> Iterator[tuple[ast.Call, str]]:
    """Calls ``self.<buffer>.to(..., x.dtype)``, aliases of the buffer included, with the name ``x``."""
    aliases = {
        target.id
        for node in walk(function)
        if isinstance(node, ast.Assign) and is_self(node.value, buffer)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in walk(function):
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Attribute)
            or node.func.attr != "to"
        ):
            continue
        receiver = node.func.value
        if not is_self(receiver, buffer) and not (isinstance(receiver, ast.Name) and receiver.id in aliases):
            continue
        for argument in (*node.args, *(k.value for k in node.keywords)):
            if (
                isinstance(argument, ast.Attribute)
                and argument.attr == "dtype"
                and isinstance(argument.value, ast.Name)
            ):
                yield node, argument.value.id


def matchers(cls: ClassRef, buffer: str) -> dict[str, Matcher]:
    """The methods of a class and its bases, ``forward*`` left out, that match a buffer to a parameter."""
    found: dict[str, Matcher] = {}
    for owner in cls.mro:
        for name, method in owner.own_methods.items():
            if name in found or name.startswith("forward"):
                continue
            parameters = {a.arg for a in method.args.args}
            places = [call.lineno for call, like in casts(method, buffer) if like in parameters]
            if not places:
                continue
            stored = [n.lineno for n in walk(method) if isinstance(n, ast.Assign) and _assigns(n, buffer)]
            returned = [n for n in walk(method) if isinstance(n, ast.Return) and n.value is not None]
            early = any(places[0] <= r.lineno < min(stored, default=r.lineno + 1) for r in returned)
            returns = bool(returned) and all(_is_buffer(method, r.value, buffer) for r in returned)
            found[name] = Matcher(owner, method, returns, bool(stored) and not early)
    return found


def _is_buffer(method: FunctionNode, expr: ast.expr | None, buffer: str) -> bool:
    """Whether an expression in a matcher is the buffer, cast or as it is, or a copy kept beside it."""
    cast = {call for call, _ in casts(method, buffer)}

    def is_it(value: ast.expr) -> bool:
        name = value.attr if isinstance(value, ast.Attribute) and is_self(value, value.attr) else ""
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "getattr" and len(value.args) > 1:
            named = value.args[1]
            name = str(named.value) if isinstance(named, ast.Constant) else ""
        return value in cast or name.startswith(buffer)

    if expr is None or is_it(expr) or not isinstance(expr, ast.Name):
        return expr is not None and is_it(expr)
    bound = [
        node.value
        for node in walk(method)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == expr.id for target in node.targets)
    ]
    return bool(bound) and all(map(is_it, bound))


def takes_one(matcher: Matcher) -> bool:
    """Whether a matcher can be called with the one argument that it matches the buffer to."""
    method, given = matcher.method, matcher.method.args
    plain = isinstance(method, ast.FunctionDef) and not method.decorator_list
    required = len(given.posonlyargs) + len(given.args) - len(given.defaults)
    return (
        plain and required <= 2 <= len(given.posonlyargs) + len(given.args) and None not in given.kw_defaults
    )


def matches(function: FunctionNode, buffer: str, known: dict[str, Matcher]) -> list[Match]:
    """The places in a function that bring the buffer to another dtype, in source order."""
    found = [Match(call, like, None) for call, like in casts(function, buffer)]
    for node in walk(function):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and is_self(node.func, node.func.attr)
        ):
            matcher = known.get(node.func.attr)
            argument = node.args[0] if node.args else None
            if matcher is not None and isinstance(argument, ast.Name):
                found.append(Match(node, argument.id, matcher))
    return sorted(found, key=lambda m: m.node.lineno)


def deciders(cls: ClassRef, buffer: str) -> list[ClassRef]:
    """The classes of a method resolution order down to the one that decides what the buffer holds.

    A class that registers the buffer itself has decided on its dtype: what its bases do with theirs
    says nothing about it.
    """
    for index, owner in enumerate(cls.mro):
        for method in owner.own_methods.values():
            if any(isinstance(n, ast.Call) and _registers(n, buffer) for n in walk(method)):
                return cls.mro[: index + 1]
    return cls.mro


def _registers(call: ast.Call, buffer: str) -> bool:
    first = call.args[0] if call.args else None
    named = isinstance(first, ast.Constant) and first.value == buffer
    return named and isinstance(call.func, ast.Attribute) and call.func.attr == "register_buffer"


def _assigns(statement: ast.Assign, buffer: str) -> bool:
    return any(is_self(target, buffer) for target in statement.targets)


def reads(function: FunctionNode, buffer: str) -> list[ast.Attribute]:
    """The places that read ``self.<buffer>``, in source order."""
    found = [n for n in walk(function) if is_self(n, buffer)]
    attributes = [n for n in found if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)]
    return sorted(attributes, key=lambda n: (n.lineno, n.col_offset))


def settles(module: Module, match: Match, read: ast.Attribute, buffer: str) -> bool:
    """Whether the buffer surely holds the match when it is read."""
    statement = next((p for p in module.ancestors(match.node) if isinstance(p, ast.stmt)), None)
    if match.matcher is None:
        if not isinstance(statement, ast.Assign) or not is_self(statement.targets[0], buffer):
            return False
        guard = module.parents.get(statement)
        if isinstance(guard, ast.If) and "dtype" in ast.unparse(guard.test):
            statement = guard
    elif not match.matcher.stores:
        return False
    if statement is None or statement.lineno > read.lineno:
        return False
    block = module.parents.get(statement)
    return any(parent is block for parent in module.ancestors(read))


def is_deliberate(cls: ClassRef, read: ast.Attribute) -> bool:
    """Whether the read stands behind a switch that also decides the cache's dtype when it is built."""
    switches = {
        ast.unparse(p.test)
        for p in cls.module.ancestors(read)
        if isinstance(p, ast.If) and "self." in ast.unparse(p.test)
    }
    for owner in cls.mro if switches else ():
        init = owner.own_methods.get("__init__")
        for node in walk(init) if init is not None else ():
            if isinstance(node, ast.If) and any(s in ast.unparse(node.test) for s in switches):
                if any("dtype" in ast.unparse(s) for s in node.body):
                    return True
    return False


def is_guarded(owner: ClassRef, match: Match, buffer: str) -> bool:
    """Whether a match compares the dtypes first."""
    if match.matcher is not None:
        return True
    tests = (p.test for p in owner.module.ancestors(match.node) if isinstance(p, ast.If))
    return any(f"self.{buffer}.dtype" in ast.unparse(test) for test in tests)


def cast_later(function: FunctionNode, read: ast.Attribute) -> bool:
    """Whether what is made of the read is cast in the same function."""
    derived: set[str] = set()
    for statement in walk(function):
        if isinstance(statement, ast.Assign):
            names = {n.id for n in walk(statement.value) if isinstance(n, ast.Name)}
            if any(n is read for n in walk(statement.value)) or names & derived:
                derived |= {n.id for t in statement.targets for n in walk(t) if isinstance(n, ast.Name)}
                if any(
                    _is_cast(n) and _root(n.func) in derived
                    for n in walk(statement.value)
                    if isinstance(n, ast.Call)
                ):
                    return True
    return False


def twin_match(
    cls: ClassRef, function: FunctionNode, buffer: str, known: dict[str, Matcher]
) -> tuple[ClassRef, FunctionNode, Match] | None:
    """A ``forward*`` of the class or its bases that matches the buffer, with the place."""
    for owner in deciders(cls, buffer):
        for name, method in owner.own_methods.items():
            if name.startswith("forward") and method is not function:
                for match in matches(method, buffer, known):
                    return owner, method, match
    return None


def rotary_buffers(function: FunctionNode) -> list[str]:
    """The rotary tables that a method reads from its object, by name."""
    names = {n.attr for n in walk(function) if isinstance(n, ast.Attribute) and _BUFFER.search(n.attr)}
    return sorted(name for name in names if reads(function, name))


def _is_cast(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in CASTS and "dtype" in ast.unparse(call)


def _root(expr: ast.expr) -> str:
    while isinstance(expr, ast.Attribute | ast.Call | ast.Subscript):
        expr = expr.func if isinstance(expr, ast.Call) else expr.value
    return expr.id if isinstance(expr, ast.Name) else ""
