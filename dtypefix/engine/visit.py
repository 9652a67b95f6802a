"""One pass over a unit for all rules: which nodes they visit, and where every node stands.

LibCST's visitors rebuild each node they pass, and its metadata takes two passes more. Writing the tree out
again passes every node once, in source order, and knows at each where it is; so that is the pass used here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import libcst as cst
from libcst._nodes.internal import CodegenState

from dtypefix.engine.profile import Profile
from dtypefix.engine.rule import Rule
from dtypefix.errors import UserError

Handler = tuple[str, Callable[[cst.CSTNode], object]]  # a rule's name and its method
Handlers = Mapping[type[cst.CSTNode], tuple[Handler, ...]]


def handlers_of(rules: Sequence[Rule]) -> tuple[Handlers, Handlers]:
    """The ``visit_*`` and the ``leave_*`` methods of rules by node type, in the order of the rules.

    Raises:
        UserError: a method is named after no LibCST node, so that it would never be called.
    """
    tables: dict[str, dict[type[cst.CSTNode], tuple[Handler, ...]]] = {"visit": {}, "leave": {}}
    for rule in rules:
        for attribute in dir(type(rule)):
            kind, _, name = attribute.partition("_")
            if kind not in tables:
                continue
            node = getattr(cst, name, None)
            if not isinstance(node, type):
                raise UserError(f"rule {rule.name}: {attribute} names no LibCST node, so it would never run")
            tables[kind][node] = (
                *tables[kind].get(node, ()),
                (rule.name, getattr(rule, attribute)),
            )
    return tables["visit"], tables["leave"]


class Trace(CodegenState):
    """The nodes of a tree that rules visit or leave, and the places of all its nodes."""

    def __init__(self, tree: cst.Module, enter: Handlers, leave: Handlers) -> None:
        super().__init__(tree.default_indent, tree.default_newline)
        self.calls: list[tuple[tuple[Handler, ...], cst.CSTNode]] = []
        self.nodes = 0
        self._enter, self._leave = enter, leave
        self._at = 0
        self._starts: list[int] = []
        # By identity, since LibCST hashes nodes in Python; the tree keeps them alive.
        self._places: dict[int, tuple[int, int]] = {}
        self._tree = tree
        tree._codegen(self)

    def place(self, node: cst.CSTNode) -> tuple[int, int]:
        """Where a node starts and ends, in characters: the places of LibCST's ``PositionProvider``."""
        return self._places[id(node)]

    def run(self, profile: Profile) -> None:
        """Call the rules' methods, outer nodes and earlier ones first."""
        seconds, clock = profile.rules, time.perf_counter
        for handlers, node in self.calls:
            for rule, method in handlers:
                started = clock()
                method(node)
                seconds[rule] += clock() - started  # type: ignore[assignment]

    # ---- what LibCST calls while it writes a tree

    def add_indent_tokens(self) -> None:
        """Count the indentation of a line."""
        for token in self.indent_tokens:
            self._at += len(token)
        self.tokens = [""]  # all that is asked of the tokens is whether there are any

    def add_token(self, value: str) -> None:
        """Count a token."""
        self._at += len(value)
        self.tokens = [""]

    def before_codegen(self, node: cst.CSTNode) -> None:
        """Note where a node, with the whitespace that it owns, starts."""
        self._starts.append(self._at)
        handlers = self._enter.get(type(node))
        if handlers is not None:
            self.calls.append((handlers, node))

    def after_codegen(self, node: cst.CSTNode) -> None:
        """Note where a node ends, unless its place without whitespace is known."""
        self.nodes += 1
        self._places.setdefault(id(node), (self._starts.pop(), self._at))
        handlers = self._leave.get(type(node))
        if handlers is not None:
            self.calls.append((handlers, node))

    def record_syntactic_position(  # type: ignore[override]
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> _Syntactic:
        """Note where a node stands without the whitespace that it owns."""
        return _Syntactic(self, node, start_node, end_node)


class _Syntactic:
    """The context manager in which LibCST writes what counts as a node's place."""

    __slots__ = ("_end_node", "_node", "_start", "_start_node", "_trace")

    def __init__(
        self, trace: Trace, node: cst.CSTNode, start_node: cst.CSTNode | None, end_node: cst.CSTNode | None
    ) -> None:
        self._trace, self._node, self._start_node, self._end_node = trace, node, start_node, end_node
        self._start = trace._at

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        places, start, end = self._trace._places, self._start, self._trace._at
        if self._start_node is not None:
            start = places[id(self._start_node)][0]
        if self._end_node is not None:
            end = places[id(self._end_node)][1]
        places[id(self._node)] = (start, end)
