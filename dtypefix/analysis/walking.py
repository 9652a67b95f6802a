"""Walking a syntax tree: what ``ast.walk`` gives, for half its cost."""

from __future__ import annotations

import ast
from collections.abc import Iterator

# Fields that hold no node with a place of its own: names, constants, and the operators and
# contexts that Python shares among all places.
_BARE = frozenset(
    {"ctx", "op", "ops", "id", "attr", "name", "asname", "level", "module", "kind", "type_comment"}
    | {"conversion", "is_async", "simple", "lineno", "tag", "rest", "kwd_attrs"}
)
_LEAVES = (ast.Constant, ast.Global, ast.Nonlocal, ast.MatchSingleton)
_fields_of: dict[type[ast.AST], tuple[str, ...]] = {}


def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a node type that can hold nodes."""
    bare = _BARE | {"arg"} if issubclass(kind, (ast.arg, ast.keyword)) else _BARE
    found = () if issubclass(kind, _LEAVES) else tuple(f for f in kind._fields if f not in bare)
    return _fields_of.setdefault(kind, found)


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes directly below ``node``, in the order of its fields; operators and contexts are left out."""
    kind = type(node)
    for name in _fields_of[kind] if kind in _fields_of else _fields(kind):
        value = getattr(node, name, None)
        if type(value) is list:
            for item in value:
                if item is not None:
                    yield item
        elif value is not None:
            yield value


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and every node below it, outer ones first, in the order of ``ast.walk``.

    Operators and load/store contexts are left out: they have no place, and one object stands for all.
    """
    todo = [node]
    add = todo.append
    known = _fields_of
    for current in todo:
        yield current
        kind = type(current)
        for name in known[kind] if kind in known else _fields(kind):
            value = getattr(current, name, None)
            if type(value) is list:
                for item in value:
                    if item is not None:
                        add(item)
            elif value is not None:
                add(value)
