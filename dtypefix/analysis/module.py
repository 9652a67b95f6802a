"""One source file as the analysis sees it: its bytes, its ``ast`` and where everything stands."""

from __future__ import annotations

import ast
import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TypeVar, overload

from dtypefix.analysis.recursion import deep_recursion
from dtypefix.analysis.walking import children
from dtypefix.findings import Span

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
NodeT = TypeVar("NodeT", bound=ast.AST)
BOM = b"\xef\xbb\xbf"


@dataclass(eq=False)
class Module:
    """A parsed file. Everything beyond the tree is computed when first asked for.

    ``path`` is how reports name the file, ``name`` its dotted module name (``""`` when the file
    lies in no package) and ``is_package`` whether it is an ``__init__.py``.
    """

    path: str
    source: bytes
    name: str = ""
    is_package: bool = False
    tree: ast.Module = field(init=False)

    def __post_init__(self) -> None:
        # SyntaxError and ValueError (NUL bytes) are the caller's to report.
        with deep_recursion():
            self.tree = ast.parse(self.source)

    @cached_property
    def encoding(self) -> str:
        """The encoding of ``source``, as its byte order mark or coding cookie says."""
        import io
        import tokenize

        return tokenize.detect_encoding(io.BytesIO(self.source).readline)[0]

    @cached_property
    def _is_utf8(self) -> bool:
        return self.encoding.replace("_", "-") in ("utf-8", "utf-8-sig", "ascii")

    @cached_property
    def lines(self) -> list[bytes]:
        """The physical lines with their endings: a line feed, a carriage return or both end a line."""
        return self.source.removeprefix(BOM).splitlines(keepends=True)

    @cached_property
    def line_starts(self) -> list[int]:
        """Byte offset of each line in ``source``, plus one entry past the end."""
        at = len(BOM) if self.source.startswith(BOM) else 0
        starts = []
        for line in self.lines:
            starts.append(at)
            at += len(line)
        starts.append(at)
        return starts

    def offset(self, line: int, utf8_column: int) -> int:
        """Byte offset in ``source`` of an ``ast`` position (line from 1, UTF-8 column from 0)."""
        if line > len(self.lines):
            return len(self.source)
        start = self.line_starts[line - 1]
        text = self.lines[line - 1]
        if self._is_utf8 or text.isascii():
            return start + utf8_column
        prefix = text.decode(self.encoding).encode()[:utf8_column].decode()
        return start + len(prefix.encode(self.encoding))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column (both from 1, column in code points) of a byte offset in ``source``."""
        line = max(bisect.bisect_right(self.line_starts, offset) - 1, 0)
        line = min(line, max(len(self.lines) - 1, 0))
        prefix = self.source[self.line_starts[line] : offset]
        return line + 1, len(prefix.decode(self.encoding, "replace")) + 1

    def span_of_bytes(self, start: int, end: int) -> Span:
        """The span of a byte range in ``source``."""
        return Span(start, end, *self.position(start), *self.position(end))

    def byte_range(self, node: ast.AST) -> tuple[int, int]:
        """Byte offsets of an ``ast`` node that has a position (decorators are not part of a definition)."""
        return (
            self.offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self.offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def span(self, node: ast.AST) -> Span:
        """The span of an ``ast`` node that has a position."""
        return self.span_of_bytes(*self.byte_range(node))

    def bytes_of(self, node: ast.AST) -> bytes:
        """The source of a node as it lies in the file."""
        start, end = self.byte_range(node)
        return self.source[start:end]

    def text(self, node: ast.AST) -> str:
        """The source text of a node, as written."""
        return self.bytes_of(node).decode(self.encoding)

    @cached_property
    def _walked(self) -> tuple[list[ast.AST], dict[ast.AST, ast.AST]]:
        """Every node, outer ones first, and the parent of each, from one pass over the tree."""
        parents: dict[ast.AST, ast.AST] = {}
        nodes: list[ast.AST] = [self.tree]
        for node in nodes:
            for child in children(node):
                parents[child] = node
                nodes.append(child)
        return nodes, parents

    @cached_property
    def _nodes_by_type(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: dict[type[ast.AST], list[ast.AST]] = {}
        for node in self._walked[0]:
            found.setdefault(type(node), []).append(node)
        return found

    @overload
    def nodes(self) -> Iterator[ast.AST]: ...

    @overload
    def nodes(self, *types: type[NodeT]) -> Iterator[NodeT]: ...

    def nodes(self, *types: type[ast.AST]) -> Iterator[ast.AST]:
        """All nodes of the given types, or of every type; like ``ast.walk``, but walked only once.

        Operators and load/store contexts are left out. Nodes of one type come outer ones first.
        """
        if not types:
            return iter(self._walked[0])
        return chain.from_iterable(self._nodes_by_type.get(t, ()) for t in types)

    @property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The parent of every node but operators and load/store contexts."""
        return self._walked[1]

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around ``node``, innermost first."""
        parents = self.parents
        while (parent := parents.get(node)) is not None:
            yield parent
            node = parent

    def enclosing_function(self, node: ast.AST) -> FunctionNode | None:
        """The innermost function around ``node``, or None at class or module level."""
        for parent in self.ancestors(node):
            if isinstance(parent, FunctionNode):
                return parent
        return None

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around ``node``, seen through functions."""
        for parent in self.ancestors(node):
            if isinstance(parent, ast.ClassDef):
                return parent
        return None

    def symbol(self, node: ast.AST) -> str:
        """The dotted name of the scope a node stands in, ``Class.method``; ``""`` at module level."""
        names = [parent.name for parent in self.ancestors(node) if isinstance(parent, ScopeNode)]
        if isinstance(node, ScopeNode):
            names.insert(0, node.name)
        return ".".join(reversed(names))

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        """Top-level classes, functions and plain assignments by name, also inside ``if`` and ``try``.

        The last definition of a name wins, except that one in an ``except`` or ``else`` arm never
        replaces one from the main arm.
        """
        found: dict[str, ast.stmt] = {}

        def collect(body: list[ast.stmt], fallback: bool) -> None:
            for stmt in body:
                names: list[str] = []
                if isinstance(stmt, ScopeNode):
                    names = [stmt.name]
                elif isinstance(stmt, ast.Assign):
                    names = [t.id for t in stmt.targets if isinstance(t, ast.Name)]
                elif isinstance(stmt, ast.AnnAssign) and isinstance(stmt.target, ast.Name):
                    names = [stmt.target.id]
                elif isinstance(stmt, ast.If):
                    collect(stmt.body, fallback)
                    collect(stmt.orelse, True)
                elif isinstance(stmt, ast.Try):
                    collect(stmt.body, fallback)
                    for handler in stmt.handlers:
                        collect(handler.body, True)
                    collect(stmt.orelse, fallback)
                elif isinstance(stmt, ast.With):
                    collect(stmt.body, fallback)
                for name in names:
                    if not (fallback and name in found):
                        found[name] = stmt

        collect(self.tree.body, False)
        return found
