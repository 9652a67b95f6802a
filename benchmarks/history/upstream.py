"""Is a rewrite of a place what upstream wrote there?

Statements are compared as syntax (`ast.unparse`), so that layout, quotes and comments do not count. Of a
compound statement only its header counts, since its body is statements of its own.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from corpus import Row

UNTOUCHED, EQUAL, SAME_SOURCE, OTHER = "untouched", "equal", "same source", "other"
VERDICTS = (EQUAL, SAME_SOURCE, OTHER, UNTOUCHED)
SLACK = 2
SIMILAR = 0.75

# Casts that name their dtype by the method's name.
NAMED = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "double": "float64"}
SYNONYMS = {"torch.float": "torch.float32", "torch.half": "torch.float16", "torch.long": "torch.int64"}
LITERALS = ("float", "half", "double", "long", "int", "uint", "bool", "bfloat")


@dataclass(frozen=True)
class Statement:
    """A simple statement or the header of a compound one: first and last line, text, dtypes it reads."""

    line: int
    end_line: int
    text: str
    dtypes: frozenset[str]

    def touches(self, low: int, high: int) -> bool:
        """Whether it has a line between two lines, both included."""
        return self.line <= high and self.end_line >= low


@dataclass(frozen=True)
class Comparison:
    """A verdict on one place, what our change put there, and what upstream's place reads."""

    verdict: str
    ours: list[str]
    theirs: list[str]


def compare(row: Row, before: bytes, ours: bytes, theirs: bytes) -> Comparison:
    """How our rewrite of a row's place compares with upstream's.

    *Equal*: every statement that ours puts in stands in upstream's place, and what ours takes out stands
    there no more. *Same source*: ours brings dtypes in, and upstream's changes of the place bring in the
    same ones, whatever the spelling. Upstream's place is the lines that the row names and, further away in
    the same symbol, statements that are much like ours.
    """
    old, fixed, after = statements(before), statements(ours), statements(theirs)
    out, put = changes(old, fixed, row["line"] - SLACK, row["end_line"] + SLACK)
    texts = [s.text for s in put]
    low, high = row["line_after"] - SLACK, row["line_after"] + row["end_line"] - row["line"] + SLACK
    reach = extent(theirs, row["symbol_after"] or row["symbol"])
    place = [
        s
        for s in after
        if s.touches(low, high) or (s.touches(*reach) and any(alike(s.text, t) for t in texts))
    ]
    there = [s.text for s in place]
    if not out and not put:
        return Comparison(UNTOUCHED, [], there)
    if set(texts) <= set(there) and not {s.text for s in out} & set(there):
        return Comparison(EQUAL, texts, there)
    was = {s.text for s in old}
    brought = dtypes_of(put) - dtypes_of(out)
    same = bool(brought) and brought <= dtypes_of(s for s in place if s.text not in was)
    return Comparison(SAME_SOURCE if same else OTHER, texts, there)


def changes(
    old: Sequence[Statement], new: Sequence[Statement], low: int, high: int
) -> tuple[list[Statement], list[Statement]]:
    """What was taken out of, and what was put in, at two lines of ``old`` and between them."""
    out: list[Statement] = []
    put: list[Statement] = []
    matcher = difflib.SequenceMatcher(None, [s.text for s in old], [s.text for s in new], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        if i2 - i1 == j2 - j1:
            pairs = [p for p in zip(old[i1:i2], new[j1:j2], strict=True) if p[0].touches(low, high)]
            out += [before for before, _ in pairs]
            put += [after for _, after in pairs]
        elif any(s.touches(low, high) for s in old[i1:i2] or old[max(i1 - 1, 0) : i1 + 1]):
            out += old[i1:i2]
            put += new[j1:j2]
    return out, put


def alike(one: str, other: str) -> bool:
    """Whether two statements have most of their text in common."""
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio() >= SIMILAR


def dtypes_of(found: Iterable[Statement]) -> frozenset[str]:
    """All dtypes that some statements read."""
    return frozenset[str]().union(*(s.dtypes for s in found))


def extent(source: bytes, symbol: str) -> tuple[int, int]:
    """First and last line of a class or function, named with what encloses it; ``(0, -1)`` if not there."""
    node: ast.AST = ast.parse(source)
    for name in symbol.split("."):
        inner = (
            n for n in ast.walk(node) if isinstance(n, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        )
        found = next((n for n in inner if n is not node and n.name == name), None)
        if found is None:
            return 0, -1
        node = found
    return (node.lineno, node.end_lineno or node.lineno) if isinstance(node, ast.stmt) else (0, -1)


def statements(source: bytes) -> list[Statement]:
    """The statements of a file in order."""
    tree = ast.parse(source)
    return list(_statements(tree, _aliases(tree)))


def _statements(node: ast.AST, aliases: Mapping[str, frozenset[str]]) -> Iterator[Statement]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            body = getattr(child, "body", None)
            end = max(child.lineno, body[0].lineno - 1) if body else child.end_lineno or child.lineno
            bare = _header(child) if body else child
            read = frozenset(d for name in _dtypes(bare) for d in aliases.get(name, (name,)))
            yield Statement(child.lineno, end, ast.unparse(bare), read)
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _statements(child, aliases)


def _header(node: ast.stmt) -> ast.stmt:
    """A compound statement without the statements in it."""
    rest: dict[str, list[ast.stmt]] = {"body": [ast.Pass()], "orelse": [], "finalbody": [], "handlers": []}
    if isinstance(node, ast.Try | ast.TryStar):
        rest["finalbody"] = [ast.Pass()]
    bare = type(node)(**{name: rest.get(name, value) for name, value in ast.iter_fields(node)})
    return ast.copy_location(bare, node)


def _aliases(tree: ast.AST) -> dict[str, frozenset[str]]:
    """What local names of dtypes stand for, where a file gives each of them one value only."""
    values: dict[str, set[frozenset[str]]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if _is_dtype(node.targets[0].id):
                values.setdefault(node.targets[0].id, set()).add(frozenset(_dtypes(node.value)))
    return {name: next(iter(read)) for name, read in values.items() if len(read) == 1 and all(read)}


def _dtypes(node: ast.AST) -> Iterator[str]:
    """The dtypes that are read in a piece of code, one spelling for each."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in NAMED and not node.args:
            yield f"torch.{NAMED[node.func.attr]}"
        elif node.func.attr == "type_as" and len(node.args) == 1:
            yield f"{ast.unparse(node.args[0])}.dtype"
    if isinstance(node, ast.Name | ast.Attribute):
        text = ast.unparse(node)
        literal = text.startswith("torch.") and text[6:].rstrip("0123456789") in LITERALS
        if literal or _is_dtype(text):
            yield SYNONYMS.get(text, text)
            return
    for child in ast.iter_child_nodes(node):
        yield from _dtypes(child)


def _is_dtype(name: str) -> bool:
    last = name.rsplit(".", 1)[-1].casefold()
    return last.endswith("dtype") or last.startswith("float8_")
