"""The pieces of a file that LibCST parses: whole functions or single statements, offsets kept right."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from dtypefix.analysis.module import FunctionNode, Module, ScopeNode

# An indented unit is parsed inside this block, so its own text, columns included, stays as it is.
_FRAME = "if 1:\n"


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch of whole lines of one file that parses on its own.

    ``node`` is the ``ast`` node that it holds, ``text`` what LibCST is given, of which the first
    ``frame`` characters are not the file's; what follows them stands at byte ``start`` of the file.
    """

    node: ast.AST
    text: str
    start: int
    frame: int = 0

    @property
    def lines(self) -> int:
        """How many lines LibCST parses."""
        return self.text.count("\n") + 1

    def offset(self, character: int, encoding: str) -> int:
        """The byte offset in the file of a character of ``text``."""
        if self.text.isascii():
            return self.start + character - self.frame
        return self.start + len(self.text[self.frame : character].encode(encoding))


def unit_nodes(module: Module, candidates: Iterable[ast.AST], *, whole_functions: bool) -> list[ast.AST]:
    """The nodes to parse so that every candidate is seen, in file order, none inside another.

    Args:
        module: the file.
        candidates: nodes of its tree.
        whole_functions: whether a candidate needs the outermost function around it, rather than
            the smallest statement.
    """
    find = _outermost_function if whole_functions else _smallest_statement
    chosen = {id(node): node for node in (find(module, candidate) for candidate in candidates)}
    if id(module.tree) in chosen:
        return [module.tree]
    result: list[ast.AST] = []
    covered = 0
    for node in sorted(chosen.values(), key=lambda n: (_first_line(n), -_last_line(n))):
        if _last_line(node) > covered:
            result.append(node)
            covered = _last_line(node)
    return result


def unit_of(module: Module, node: ast.AST) -> Unit:
    """What LibCST parses for a node that :func:`unit_nodes` gave."""
    if isinstance(node, ast.Module):
        start = module.line_starts[0]
        return Unit(node, module.source[start:].decode(plain_encoding(module.encoding)), start)
    first, last = _first_line(node), _last_line(node)
    start = module.line_starts[first - 1]
    text = module.source[start : module.line_starts[last]].decode(plain_encoding(module.encoding))
    indented = text[:1] in (" ", "\t", "\f")
    return Unit(node, _FRAME + text, start, len(_FRAME)) if indented else Unit(node, text, start)


def plain_encoding(name: str) -> str:
    """The encoding without a byte order mark."""
    return "utf-8" if name.replace("_", "-") == "utf-8-sig" else name


def _outermost_function(module: Module, node: ast.AST) -> ast.AST:
    """The outermost function around a node, or else the smallest statement."""
    found = node if isinstance(node, ScopeNode) else None
    for parent in module.ancestors(node):
        if isinstance(parent, FunctionNode):
            found = parent
    return found or _smallest_statement(module, node)


def _smallest_statement(module: Module, node: ast.AST) -> ast.AST:
    """The innermost statement around a node that has its lines to itself."""
    for current in (node, *module.ancestors(node)):
        if isinstance(current, ast.stmt) and _has_its_lines(module, current):
            return current
    return module.tree


def _has_its_lines(module: Module, node: ast.stmt) -> bool:
    before = module.lines[_first_line(node) - 1][: node.col_offset]
    after = module.lines[_last_line(node) - 1][node.end_col_offset or 0 :].strip()
    # An `elif` is an `if` of its own to the ast, whose text begins in the middle of another's.
    begins = module.lines[node.lineno - 1][node.col_offset :]
    return not before.strip() and (not after or after.startswith(b"#")) and not begins.startswith(b"elif")


def _first_line(node: ast.AST) -> int:
    decorators = getattr(node, "decorator_list", None) or []
    lines: list[int] = [node.lineno, *(d.lineno for d in decorators)]  # type: ignore[attr-defined]
    return min(lines)


def _last_line(node: ast.AST) -> int:
    last: int = node.end_lineno  # type: ignore[attr-defined]
    return last
