"""``torch.get_default_dtype()`` decides an output dtype, where the model's configuration should."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from dtypefix.analysis.fallback import inside_block, is_fallback, may_repeat
from dtypefix.analysis.module import Module
from dtypefix.analysis.named_sinks import NamedSinks, Sink, target_name
from dtypefix.analysis.reaching import is_stored
from dtypefix.analysis.scopes import Scope
from dtypefix.analysis.walking import walk
from dtypefix.edits.imports import import_edit
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Edit, Evidence, Fix

AMBIENT = "torch.get_default_dtype"
CONFIG = "get_current_vllm_config"
OUTPUT_NAME = re.compile(r"(^|_)(out|output)_dtype$|result_dtype$")
OUTPUT_PARAMETER = re.compile(r"(^|_)(out|output)_(d?type)$|result_dtype$")
CONFIG_READ = re.compile(r"\bmodel_config\.dtype$")
FAKE = re.compile(r"fake|abstract")


class AmbientOutDtype(Rule):
    """Reports each read of the ambient dtype that ends in an output dtype."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Calls of something named ``get_default_dtype``, or of a name imported or assigned from it."""
        names = {AMBIENT.rpartition(".")[2]}
        calls = []
        for node in module.nodes():
            if isinstance(node, ast.Call) and not node.args and not node.keywords:
                calls.append(node)
            elif isinstance(node, ast.alias) and node.name in names and node.asname:
                names.add(node.asname)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
                if target_name(node.value) in names:
                    names.update(n for t in node.targets if (n := target_name(t)))
        return [call for call in calls if target_name(call.func) in names]

    def visit_Call(self, node: cst.Call) -> None:
        """Examine one read of the ambient dtype."""
        if node.args or not isinstance(node.func, cst.Name | cst.Attribute):
            return
        read = self.context.ast_of(node)
        if not isinstance(read, ast.Call) or self.project.qualified(self.module, read.func) != AMBIENT:
            return
        knowledge = self.project.knowledge
        if inside_block(self.module, read, {*knowledge.default_dtype_managers, "set_default_dtype"}):
            return
        if is_fallback(self.module, read, "model_config"):
            return
        sink = NamedSinks(self.module, self.project, OUTPUT_NAME, OUTPUT_PARAMETER).of(read)
        if sink is not None:
            self._report(read, sink)

    @cached_property
    def _reads(self) -> dict[ast.AST, list[ast.Attribute]]:
        """The reads of the configured dtype in scopes that were looked at."""
        return {}

    def _report(self, read: ast.Call, sink: Sink) -> None:
        path = self.module.path
        evidence = [Evidence(path, read.lineno, "the ambient dtype is read here")]
        if sink.line != read.lineno:
            evidence.append(Evidence(path, sink.line, f"and becomes `{sink.name}` here"))
        scope = self.project.flows(self.module).scope_at(read)
        evidence.append(Evidence(path, read.lineno, self._where(read, scope)))
        other = self._config_read(read)
        if scope is Scope.OUTSIDE:
            fix, reason = self._activation(read)
            self.context.report(
                read,
                level="error",
                message=f"{sink.name} is the process's default dtype, float32: {evidence[-1].text}",
                evidence=evidence,
                fix=fix,
                unfixed_reason=reason,
            )
        elif other is not None and sink.direct and scope is not Scope.BOTH:
            text = f"the same class takes `{ast.unparse(other)}` for the model dtype"
            self.context.report(
                read,
                level="warning",
                message=f"{sink.name} is the process's default dtype while the class reads "
                "model_config.dtype: outside the model loader they differ",
                evidence=[*evidence, Evidence(path, other.lineno, text)],
                fix=self._config_fix(read, other),
            )
        else:
            self.context.report(
                read,
                level="note",
                message=f"{sink.name} is the process's default dtype, right only inside the model loader",
                evidence=evidence,
                unfixed_reason="nothing here says that it is reached outside the model loader",
            )

    def _where(self, read: ast.Call, scope: Scope) -> str:
        """Where the read runs, in words."""
        function = self.module.enclosing_function(read)
        if function is None or self.project.flows(self.module).at(read).node is not function:
            return "this runs on import"
        if scope is Scope.OUTSIDE:
            return f"`{function.name}` runs outside the model loader"
        if scope is Scope.BUILD:
            return f"`{function.name}` runs inside the model loader"
        return f"`{function.name}` may run inside or outside the model loader"

    def _config_read(self, read: ast.Call) -> ast.Attribute | None:
        """The read of ``model_config.dtype`` nearest by, in the same function or else the same class."""
        for scope in (self.module.enclosing_function(read), self.module.enclosing_class(read)):
            reads = self._reads.get(scope) if scope is not None else []
            if reads is None:
                assert scope is not None
                reads = self._reads[scope] = _config_reads(scope)
            if reads:
                return min(reads, key=lambda n: (abs(n.lineno - read.lineno), n.lineno))
        return None

    def _config_fix(self, read: ast.Call, other: ast.Attribute) -> Fix:
        """Read the model's config instead: safe where the same read already stands in the function."""
        text = ast.unparse(other)
        start, end = self.module.byte_range(read)
        here = self.module.enclosing_function(read)
        if here is not None and self.module.enclosing_function(other) is here:
            if may_repeat(self.module, self.project, other, read, here):
                return Fix("safe", f"read {text}", (Edit(start, end, text),))
        text = f"{CONFIG}().model_config.dtype"
        added = import_edit(self.module, "vllm.config", CONFIG, self.project.line_length(self.module))
        return Fix("unsafe", f"read {text}", (Edit(start, end, text), *([added] if added else [])))

    def _activation(self, read: ast.Call) -> tuple[Fix | None, str | None]:
        """For code that runs a layer: the dtype of the activation it is given, where that is plain to see."""
        function = self.module.enclosing_function(read)
        if function is None or self.project.flows(self.module).at(read).node is not function:
            return None, "no configuration is known on import: pass the dtype in"
        if FAKE.search(function.name) or any(FAKE.search(ast.unparse(d)) for d in function.decorator_list):
            return None, "the real kernel's own default decides what its fake must return"
        name = next((a.arg for a in function.args.args if a.arg in ("x", "hidden_states")), None)
        if name is None or is_stored(function, name):
            return None, "which tensor's dtype the output should have cannot be told from here"
        edit = Edit(*self.module.byte_range(read), f"{name}.dtype")
        return Fix("unsafe", f"use {name}.dtype", (edit,)), None


def _config_reads(scope: ast.AST) -> list[ast.Attribute]:
    return [
        n
        for n in walk(scope)
        if isinstance(n, ast.Attribute) and n.attr == "dtype" and CONFIG_READ.search(ast.unparse(n))
    ]


__getattr__ = codemod_command(
    __name__,
    "Take output dtypes from the model's configuration instead of torch.get_default_dtype().",
)
