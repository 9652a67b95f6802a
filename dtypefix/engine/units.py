"""The pieces of a file that LibCST parses: whole functions or statements, offsets kept right."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from dtypefix.analysis.module import FunctionNode, Module

# An indented unit is parsed inside this block, so its own text, columns included, stays as it is.
_FRAME = "if 1:\n"


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch of whole lines of one file that parses on its own.

    ``text`` is what LibCST is given; line ``n`` of it is line ``n + line_shift`` of the file.
    """

    node: ast.AST
    text: str
    line_shift: int


def _unit_node(module: Module, node: ast.AST) -> ast.AST:
    """The outermost function around a node, or else the smallest statement that starts its line."""
    outermost: ast.AST | None = node if isinstance(node, (ast.ClassDef, *FunctionNode.__args__)) else None
    statement: ast.AST | None = None
    current: ast.AST | None = node
    while current is not None and not isinstance(current, ast.Module):
        if isinstance(current, FunctionNode):
            outermost = current
        if statement is None and isinstance(current, ast.stmt) and _starts_its_line(module, current):
            statement = current
        current = module.parents.get(current)
    return outermost or statement or module.tree


def _first_line(node: ast.AST) -> int:
    decorators = getattr(node, "decorator_list", None) or []
    lines: list[int] = [node.lineno, *(d.lineno for d in decorators)]  # type: ignore[attr-defined]
    return min(lines)


def _starts_its_line(module: Module, node: ast.stmt) -> bool:
    line = module.lines[node.lineno - 1][: node.col_offset]
    end_line = module.lines[(node.end_lineno or node.lineno) - 1][node.end_col_offset or 0 :].strip()
    return not line.strip() and (not end_line or end_line.startswith(b"#"))


def units(module: Module, candidates: Iterable[ast.AST]) -> list[Unit]:
    """The units that hold the candidate nodes, outermost first, none inside another."""
    chosen = {id(node): node for node in (_unit_node(module, c) for c in candidates)}
    if id(module.tree) in chosen:
        return [Unit(module.tree, module.source.decode(module.encoding), 0)]
    ordered = sorted(chosen.values(), key=lambda n: (_first_line(n), -n.end_lineno))  # type: ignore[attr-defined]
    result: list[Unit] = []
    covered = 0
    for node in ordered:
        first, last = _first_line(node), node.end_lineno  # type: ignore[attr-defined]
        if last <= covered:
            continue
        covered = last
        raw = module.source[module.line_starts[first - 1] : module.line_starts[last]]
        text = raw.decode(module.encoding)
        indented = text[:1] in (" ", "\t", "\f")
        result.append(Unit(node, _FRAME + text if indented else text, first - 1 - indented))
    return result
