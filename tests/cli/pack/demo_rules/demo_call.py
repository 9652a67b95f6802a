"""Reports every call ``ambient(level, fix)`` and replaces it by ``settled``."""

import ast

import libcst as cst

from dtypefix.engine.rule import Rule
from dtypefix.findings import Edit, Evidence, Fix


class DemoCall(Rule):
    """Every call of a function named ``ambient``."""

    @classmethod
    def candidates(cls, module):
        """The calls."""
        return [
            node
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ambient"
        ]

    def visit_Call(self, node: cst.Call) -> None:
        """Report one call."""
        if not (isinstance(node.func, cst.Name) and node.func.value == "ambient"):
            return
        level, kind = (arg.value.evaluated_value for arg in node.args)
        span = self.context.span(node)
        fix = Fix(kind, "read settled", (Edit(span.start_byte, span.end_byte, "settled"),))
        self.context.report(
            node,
            level=level,
            message="the dtype comes from ambient",
            evidence=[Evidence(self.module.path, span.line, "ambient is called here")],
            fix=None if kind == "manual" else fix,
            unfixed_reason="no witness" if kind == "manual" else None,
        )
