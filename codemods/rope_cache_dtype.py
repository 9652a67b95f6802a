"""A forward method reads the cos/sin cache without matching it to the query, as its twin does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import libcst as cst

from dtypefix.analysis.cache_match import (
    CASTS,
    Match,
    Matcher,
    cast_later,
    is_deliberate,
    is_guarded,
    is_self,
    matchers,
    matches,
    reads,
    rotary_buffers,
    settles,
    takes_one,
    twin_match,
)
from dtypefix.analysis.classes import ClassRef
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.reaching import parameter_default
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Edit, Evidence, Fix

COMPLEX = re.compile(r"view_as_complex|torch\.polar|complex64")
LOOKS = frozenset({"dtype", "device", "shape", "ndim", "size", "dim", "numel"})


class RopeCacheDtype(Rule):
    """Compares each ``forward*`` with its twins in the class and its bases."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """``forward*`` methods that read a rotary buffer of their own."""
        for node in module.nodes():
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if (
                        isinstance(method, FunctionNode)
                        and method.name.startswith("forward")
                        and rotary_buffers(method)
                    ):
                        yield method

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Examine one forward method for each buffer that it reads."""
        if not node.name.value.startswith("forward"):
            return
        function = self.context.ast_of(node)
        owner = self.module.parents.get(function) if function is not None else None
        if isinstance(function, FunctionNode) and isinstance(owner, ast.ClassDef):
            cls = self.project.class_of(self.module, owner)
            for buffer in rotary_buffers(function):
                self._examine(cls, function, buffer)

    def _examine(self, cls: ClassRef, function: FunctionNode, buffer: str) -> None:
        known = matchers(cls, buffer)
        twin = twin_match(cls, function, buffer, known)
        if twin is None or COMPLEX.search(self.module.text(cls.node)):
            return
        owner, method, match = twin
        evidence = [
            Evidence(owner.module.path, match.node.lineno, f"{owner.node.name}.{method.name} matches it here")
        ]
        own = matches(function, buffer, known)
        for place in own:
            statement = self.module.parents.get(place.node)
            if (
                place.matcher is None
                and isinstance(statement, ast.Assign)
                and is_self(statement.targets[0], buffer)
            ):
                if not self._compares(statement, buffer) and is_guarded(owner, match, buffer):
                    self._rebound(statement, buffer, evidence)
        found = [r for r in reads(function, buffer) if self._is_unmatched(cls, function, r, buffer, own)]
        if not found:
            return
        thrown = next(
            (m for m in own if m.matcher and not m.matcher.stores and m.node.lineno <= found[0].lineno), None
        )
        if thrown is not None and thrown.matcher is not None:
            line, path = thrown.matcher.method.lineno, thrown.matcher.owner.module.path
            name = thrown.matcher.method.name
            evidence.append(Evidence(path, line, f"{name} returns the match, and need not store it"))
        why = (
            "whose match it throws away"
            if thrown
            else f"unmatched, where {owner.node.name}.{method.name} matches it"
        )
        fix = self._fix(found, match, function)
        self.warn(
            found[0],
            f"{function.name} uses self.{buffer} {why} to the dtype of {match.like}",
            [(found[0], f"self.{buffer} is read as it is"), *evidence],
            f"{method.name}'s way of matching it cannot be copied to this place",
            fix,
        )

    def _rebound(self, statement: ast.Assign, buffer: str, evidence: list[Evidence]) -> None:
        self.warn(
            statement,
            f"self.{buffer} is replaced by a cast on every call, where its twin compares first",
            [(statement, "the buffer is replaced here"), *evidence],
            "the twin's way of matching the buffer is to be copied",
        )

    def _is_unmatched(
        self, cls: ClassRef, function: FunctionNode, read: ast.Attribute, buffer: str, own: list[Match]
    ) -> bool:
        around = self.module.parents.get(read)
        if isinstance(around, ast.Attribute) and around.attr in LOOKS | CASTS:
            return False
        if isinstance(around, ast.Subscript) and not isinstance(around.ctx, ast.Load):
            return False
        if any(settles(self.module, m, read, buffer) for m in own) or is_deliberate(cls, read):
            return False
        return not cast_later(function, read)

    def _compares(self, statement: ast.Assign, buffer: str) -> bool:
        parent = self.module.parents.get(statement)
        return isinstance(parent, ast.If) and f"self.{buffer}.dtype" in ast.unparse(parent.test)

    def _fix(self, found: list[ast.Attribute], match: Match, function: FunctionNode) -> Fix | None:
        given = next((a for a in function.args.args if a.arg == match.like), None)
        default = parameter_default(function, match.like)
        if given is None or (isinstance(default, ast.Constant) and default.value is None):
            return None
        if any(self.module.enclosing_function(read) is not function for read in found):
            return None
        if match.matcher is None:
            text = f"{ast.unparse(found[0])}.to({match.like}.dtype)"
        elif not takes_one(match.matcher):
            return None
        elif match.matcher.returns:
            text = f"self.{match.matcher.method.name}({match.like})"
        elif match.matcher.stores:
            return self._stored(found[0], match.matcher, match.like)
        else:
            return None
        edits = tuple(Edit(*self.module.byte_range(read), text) for read in found)
        # A cast in place cannot know whether this method's kernel wants the table in float32.
        return Fix("safe" if match.matcher else "unsafe", f"match the cache to {match.like}", edits)

    def _stored(self, read: ast.Attribute, matcher: Matcher, like: str) -> Fix | None:
        """A statement that matches the buffer in place, before the first statement that reads it."""
        statement = next((p for p in self.module.ancestors(read) if isinstance(p, ast.stmt)), None)
        if statement is None:
            return None
        line = self.module.lines[statement.lineno - 1]
        indent, code = line[: statement.col_offset], line[statement.col_offset :]
        # An `elif` is a statement of its own to the ast; a decorator stands above its function.
        if indent.strip() or code.startswith(b"elif") or getattr(statement, "decorator_list", None):
            return None
        at = self.module.line_starts[statement.lineno - 1]
        text = f"{indent.decode(self.module.encoding)}self.{matcher.method.name}({like})\n"
        return Fix("safe", f"match the cache to {like}", (Edit(at, at, text),))


__getattr__ = codemod_command(
    __name__,
    "Match the cos/sin cache to the query where a sibling method does.",
)
