"""One walk over a unit for all rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from dtypefix.engine.rule import Rule

Handlers = dict[type[cst.CSTNode], list[Callable[[cst.CSTNode], object]]]


class Walk(cst.CSTVisitor):
    """Calls the ``visit_*`` and ``leave_*`` methods of every rule, children always included.

    LibCST's own ``visit_batched`` looks up several hundred methods by reflection each time a
    visitor is made; here that is done once per file.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        super().__init__()
        self._enter: Handlers = {}
        self._exit: Handlers = {}
        for rule in rules:
            for attribute in dir(rule):
                kind, _, name = attribute.partition("_")
                table = {"visit": self._enter, "leave": self._exit}.get(kind)
                if table is not None:
                    table.setdefault(getattr(cst, name), []).append(getattr(rule, attribute))

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Hand the node to the rules that visit its type."""
        for handler in self._enter.get(type(node), ()):
            handler(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        """Hand the node to the rules that leave its type."""
        for handler in self._exit.get(type(original_node), ()):
            handler(original_node)
