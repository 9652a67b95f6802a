"""``x.type(torch.float16)``: a cast that reads like a question."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import libcst as cst

from dtypefix.analysis.module import Module
from dtypefix.engine.rule import Rule
from dtypefix.findings import Edit, Evidence, Fix


class TensorTypeCall(Rule):
    """Reports ``.type(torch.<dtype>)`` and writes ``.to(torch.<dtype>)``."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Every call that may be one: cheap, from syntax alone, and never too few."""
        return [node for node in ast.walk(module.tree) if _argument(module, node) is not None]

    def visit_Call(self, node: cst.Call) -> None:
        """Look at one call; the ``ast`` node at its place is the one that ``candidates`` saw."""
        call = self.context.ast_of(node)
        dtype = _argument(self.module, call)
        if dtype is None or not isinstance(node.func, cst.Attribute):
            return
        name = self.context.span(node.func.attr)
        self.context.report(
            node,
            level="warning",
            message=f"`.type({dtype})` casts, but reads like a question",
            evidence=[Evidence(self.module.path, name.line, f"the tensor becomes {dtype} here")],
            fix=Fix("safe", f"write .to({dtype})", (Edit(name.start_byte, name.end_byte, "to"),)),
        )


def _argument(module: Module, node: ast.AST | None) -> str | None:
    """The dtype of ``x.type(torch.<dtype>)``, as written; None for everything else."""
    match node:
        case ast.Call(
            func=ast.Attribute(attr="type"),
            args=[ast.Attribute(value=ast.Name(id="torch"), attr=attr) as argument],
            keywords=[],
        ) if not attr.endswith("Tensor"):
            return module.text(argument)
    return None
