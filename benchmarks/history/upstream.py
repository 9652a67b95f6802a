"""Is a rewrite of a place what upstream wrote there?

Statements are compared as syntax (`ast.unparse`), so that layout, quotes and comments do not count. Of a
compound statement only its header counts, since its body is statements of its own.
"""

from __future__ import annotations

import ast
import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from corpus import Row

UNTOUCHED, EQUAL, SAME_SOURCE, OTHER = "untouched", "equal", "same source", "other"
VERDICTS = (EQUAL, SAME_SOURCE, OTHER, UNTOUCHED)
SLACK = 2

# Casts that name their dtype by the method's name.
NAMED = {
    "float": "torch.float32",
    "half": "torch.float16",
    "bfloat16": "torch.bfloat16",
    "double": "torch.float64",
}
SYNONYMS = {"torch.float": "torch.float32", "torch.half": "torch.float16", "torch.long": "torch.int64"}


@dataclass(frozen=True)
class Statement:
    """A simple statement or the header of a compound one: first and last line, text, dtypes it reads."""

    line: int
    end_line: int
    text: str
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """A verdict on one place and the statements that ours and upstream's change came to."""

    verdict: str
    ours: list[str]
    theirs: list[str]


def statements(source: bytes) -> list[Statement]:
    """The statements of a file in order."""
    return list(_statements(ast.parse(source)))


def _statements(node: ast.AST) -> Iterator[Statement]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            body = getattr(child, "body", None)
            end = (child.end_lineno or child.lineno) if not body else max(child.lineno, body[0].lineno - 1)
            bare = _without_body(child) if body else child
            yield Statement(child.lineno, end, ast.unparse(bare), tuple(_dtypes(bare)))
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from _statements(child)


def _without_body(node: ast.stmt) -> ast.stmt:
    empty: dict[str, list[ast.stmt]] = {"body": [ast.Pass()], "orelse": [], "finalbody": [], "handlers": []}
    kept = {name: empty.get(name, value) for name, value in ast.iter_fields(node)}
    if isinstance(node, ast.Try):
        kept["finalbody"] = [ast.Pass()]
    return ast.copy_location(type(node)(**kept), node)


def _dtypes(node: ast.AST) -> Iterator[str]:
    """The dtypes that a statement reads, one spelling for each, outermost attribute only."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in NAMED and not node.args:
            yield NAMED[node.func.attr]
        elif node.func.attr == "type_as" and len(node.args) == 1:
            yield f"{ast.unparse(node.args[0])}.dtype"
    if isinstance(node, (ast.Name, ast.Attribute)):
        text = ast.unparse(node)
        last = text.rsplit(".", 1)[-1]
        if last.endswith("dtype") or last.startswith(("float8_", "fp8_")):
            yield text
            return
        if text.startswith("torch.") and text.count(".") == 1 and _names_a_dtype(last):
            yield SYNONYMS.get(text, text)
            return
    for child in ast.iter_child_nodes(node):
        yield from _dtypes(child)


def _names_a_dtype(name: str) -> bool:
    return name in {"float", "half", "double", "long", "int", "bool"} or name.rstrip("0123456789") in {
        "float",
        "bfloat",
        "int",
        "uint",
    }


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
        around = old[i1:i2] or old[max(i1 - 1, 0) : i1 + 1]
        if around and around[0].line <= high and around[-1].end_line >= low:
            out += old[i1:i2]
            put += new[j1:j2]
    return out, put


def compare(row: Row, before: bytes, ours: bytes, theirs: bytes) -> Comparison:
    """How our rewrite of a row's place compares with upstream's.

    *Equal*: every statement that ours puts in stands in upstream's place, and what ours takes out stands
    there no more. *Same source*: ours brings in dtypes, and upstream's place brings in the same ones.
    """
    old, fixed, after = statements(before), statements(ours), statements(theirs)
    length = row["end_line"] - row["line"]
    out, put = changes(old, fixed, row["line"] - SLACK, row["end_line"] + SLACK)
    low, high = row["line_after"] - SLACK, row["line_after"] + length + SLACK
    place = [s for s in after if s.line <= high and s.end_line >= low]
    theirs_text = [s.text for s in place]
    if not out and not put:
        return Comparison(UNTOUCHED, [], theirs_text)
    ours_text = [s.text for s in put]
    if set(ours_text) <= set(theirs_text) and not {s.text for s in out} & set(theirs_text):
        return Comparison(EQUAL, ours_text, theirs_text)
    was = [s for s in old if s.line <= row["end_line"] + SLACK and s.end_line >= row["line"] - SLACK]
    brought, wanted = _read(put) - _read(out), _read(place) - _read(was)
    same = bool(brought) and brought.keys() <= wanted.keys()
    return Comparison(SAME_SOURCE if same else OTHER, ours_text, theirs_text)


def _read(found: Iterable[Statement]) -> Counter[str]:
    return Counter(name for s in found for name in s.dtypes)
