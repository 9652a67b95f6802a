"""A parameter that the tree pins to float32 is left to another dtype."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from dtypefix.analysis.allocated import parameter_name
from dtypefix.analysis.module import Module
from dtypefix.analysis.origins import Kind, Value
from dtypefix.analysis.witness import NoWitness, layers_at, path_of
from dtypefix.edits.arguments import keyword_edit
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Edit, Evidence, Fix

FACTORIES = re.compile(r"^torch\.(empty|zeros|ones|full|rand|randn)$")
SCALE_KEYWORDS = frozenset({"dtype", "scale_dtype", "params_dtype"})
HALVES = frozenset({"bfloat16", "float16"})
FLOAT32 = "torch.float32"


class UnpinnedFloat32Parameter(Rule):
    """Reports the allocation."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Allocations of parameters and buffers, and scale parameters that are given a dtype."""
        for node in module.nodes():
            if isinstance(node, ast.Call) and (parameter_name(module, node) or _keyword(node) is not None):
                yield node

    def visit_Call(self, node: cst.Call) -> None:
        """Examine one allocation, or one call that is handed a scale parameter's class."""
        call = self.context.ast_of(node)
        if not isinstance(call, ast.Call):
            return
        keyword = _keyword(call)
        if keyword is not None and any(name in self._classes for name in _names(call)):
            self._pinned_class(call, keyword)
            return
        name = parameter_name(self.module, call)
        row = self._rows.get(name.rpartition(".")[2]) if name else None
        if name is None or row is None or not FACTORIES.search(self._callee(call)):
            return
        dtype = next((k.value for k in call.keywords if k.arg == "dtype"), None)
        if dtype is not None and (row["practice"] != "pinned" or not self._is_loose(dtype, row["of"])):
            return
        self._report(call, name, dtype, row)

    def _report(self, call: ast.Call, name: str, dtype: ast.expr | None, row: dict[str, str]) -> None:
        path, simple = self.module.path, name.rpartition(".")[2]
        how = f"takes `{ast.unparse(dtype)}`" if dtype is not None else "takes the default dtype"
        fix: Fix | None = None
        reason = "releases and models disagree about this name"
        if row["practice"] == "pinned":
            reason = (
                f"whether `{ast.unparse(dtype)}` is ever anything else is not visible here" if dtype else ""
            )
            if dtype is None and ast.unparse(call.func).startswith("torch."):
                edit = keyword_edit(
                    self.module, call, "dtype", FLOAT32, self.project.line_length(self.module)
                )
                fix = Fix("unsafe", f"allocate {simple} in float32", (edit,))
        self.context.report(
            call,
            level="warning" if row["practice"] == "pinned" else "note",
            message=f"{name} {how}, where other code pins {simple} to float32",
            evidence=[
                Evidence(path, call.lineno, f"`{name}` {how}"),
                Evidence(path, call.lineno, f"{simple} is float32 elsewhere ({row['of']}): {row['cite']}"),
            ],
            fix=fix,
            unfixed_reason=None if fix else reason or "torch is not imported here",
        )

    def _pinned_class(self, call: ast.Call, keyword: ast.keyword) -> None:
        value = self.project.flows(self.module).value(keyword.value)
        if value.literal not in HALVES:
            return
        name = next(n for n in _names(call) if n in self._classes)
        edit = Edit(*self.module.byte_range(keyword.value), FLOAT32)
        self.context.report(
            call,
            level="warning",
            message=f"a {name} is allocated in {ast.unparse(keyword.value)}, where kernels read float32",
            evidence=[Evidence(self.module.path, keyword.value.lineno, self._classes[name])],
            fix=Fix("unsafe", "allocate it in float32", (edit,)),
        )

    def _is_loose(self, dtype: ast.expr, what: str) -> bool:
        """Whether a dtype can be something else than float32 without the code having said so."""
        value = self._value(dtype)
        if value.has(Kind.MODEL) or value.has(Kind.PARAMETER):
            return True
        if value.must_be(Kind.LITERAL):
            return value.literal in HALVES
        return what == "router" and (value.has(Kind.OUTPUT) or value.has(Kind.CHECKPOINT))

    def _value(self, dtype: ast.expr) -> Value:
        """What is known of a dtype; the ``out_dtype`` of a layer is what it was built with."""
        flows = self.project.flows(self.module)
        path, owner = path_of(dtype), self.module.enclosing_class(dtype)
        if path is not None and len(path) > 1 and owner is not None:
            layers = layers_at(self.project.class_of(self.module, owner), path[:-1])
            if not isinstance(layers, NoWitness) and len(layers) == 1 and layers[0].module is self.module:
                given = layers[0].argument(path[-1])
                if given is not None:
                    return flows.value(given)
        return flows.value(dtype)

    def _callee(self, call: ast.Call) -> str:
        return self.project.qualified(self.module, call.func) or ""

    @cached_property
    def _rows(self) -> dict[str, dict[str, str]]:
        table = self.project.knowledge.table("float32_parameter")
        return {name: row for row in table for name in row["names"]}

    @cached_property
    def _classes(self) -> dict[str, str]:
        table = self.project.knowledge.table("float32_parameter_class")
        return {name: row["cite"] for row in table for name in row["names"]}


def _keyword(call: ast.Call) -> ast.keyword | None:
    """A dtype keyword of a call that names a parameter's class."""
    if not any(name.endswith("ScaleParameter") for name in _names(call)):
        return None
    for keyword in call.keywords:
        if keyword.arg in SCALE_KEYWORDS:
            return keyword
        if keyword.arg == "data" and isinstance(keyword.value, ast.Call):
            return next((k for k in keyword.value.keywords if k.arg == "dtype"), None)
    return None


def _names(call: ast.Call) -> list[str]:
    """The simple names of what is called and of the classes that it is handed."""
    named = [e for e in (call.func, *call.args) if isinstance(e, ast.Name | ast.Attribute)]
    return [ast.unparse(e).rpartition(".")[2] for e in named]


__getattr__ = codemod_command(
    __name__,
    "Allocate parameters in float32 that the tree pins to it elsewhere.",
)
