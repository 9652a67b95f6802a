"""A router computes float32 logits and the fused experts are not told."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import libcst as cst

from dtypefix.analysis.classes import ClassRef
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.reaching import parameter_names
from dtypefix.analysis.routing import FLOAT32, Logits, LogitsTracer
from dtypefix.analysis.walking import walk
from dtypefix.analysis.witness import path_of
from dtypefix.edits.arguments import keyword_edit
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Evidence, Fix

EXPERTS = re.compile(r"MoE(Factory)?$")
KEYWORD = "router_logits_dtype"
STAGING = "batched_router_logits"


class RouterLogitsDtype(Rule):
    """Reports the call that builds the experts."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Assignments of fused experts to an attribute, without the keyword, in a class that upcasts."""
        for node in module.nodes():
            if _is_candidate(node):
                owner = module.enclosing_class(node)
                if owner is not None and _upcasts(module, owner):
                    yield node

    def visit_Assign(self, node: cst.Assign) -> None:
        """Examine one construction of experts."""
        assign = self.context.ast_of(node)
        if not isinstance(assign, ast.Assign) or not _is_candidate(assign):
            return
        call, path = assign.value, path_of(assign.targets[0])
        statement = self.module.enclosing_class(assign)
        if not isinstance(call, ast.Call) or path is None or statement is None:
            return
        cls = self.project.class_of(self.module, statement)
        takes = self._takes_keyword(call)
        if takes is None:
            return
        logits = self._logits(cls, path[0], call)
        if logits is None:
            return
        name = ast.unparse(call.func)
        evidence = [
            *logits.evidence,
            Evidence(self.module.path, call.lineno, f"{name} is built without {KEYWORD}"),
        ]
        fix, reason = self._fix(call, logits, takes)
        what = f"{name} is not told that the router logits are float32"
        if logits.rounded is not None:
            what = "the router logits are computed in float32 and rounded before the experts are chosen"
        self.context.report(
            call.func, level="warning", message=what, evidence=evidence, fix=fix, unfixed_reason=reason
        )

    def _fix(self, call: ast.Call, logits: Logits, takes: bool) -> tuple[Fix | None, str | None]:
        if not takes:
            return None, f"{ast.unparse(call.func)} of this release has no {KEYWORD}"
        if logits.late is not None:
            return None, f"line {logits.late.lineno} sets it after the experts are built"  # type: ignore[attr-defined]
        if logits.rounded is not None:
            return None, f"the cast at line {logits.rounded.lineno} has to go as well"  # type: ignore[attr-defined]
        if logits.dtype == FLOAT32 and self.project.qualified(self.module, _torch_at(call)) != FLOAT32:
            return None, "torch is not imported here"
        edit = keyword_edit(self.module, call, KEYWORD, logits.dtype, self.project.line_length(self.module))
        return Fix("unsafe", f"pass {KEYWORD}={logits.dtype}", (edit,)), None

    def _logits(self, cls: ClassRef, attribute: str, call: ast.Call) -> Logits | None:
        tracer = LogitsTracer(cls)
        gate = next((k.value for k in call.keywords if k.arg == "gate"), None)
        path = path_of(gate) if gate is not None else None
        if path is not None and len(path) == 1:
            found = tracer.layer(path[0], call)
            if found is not None:
                return found
        for method in cls.own_methods.values():
            for node in walk(method):
                if isinstance(node, ast.Call) and path_of(node.func) == (attribute,):
                    argument = next((k.value for k in node.keywords if k.arg == "router_logits"), None)
                    if argument is None and len(node.args) > 1:
                        argument = node.args[1]
                    found = tracer.of(argument) if argument is not None else None
                    if found is not None:
                        return found
        return None

    def _takes_keyword(self, call: ast.Call) -> bool | None:
        """Whether the experts can be told; None when their class is not known to need it."""
        found = self.project.resolve(self.module, call.func)
        if found is None:
            return None
        if isinstance(found.node, FunctionNode):
            return True if KEYWORD in parameter_names(found.node) else None
        if not isinstance(found.node, ast.ClassDef):
            return None
        cls = self.project.class_of(found.module, found.node)
        for base in cls.mro:
            built = base.own_methods.get("__init__")
            if built is not None and KEYWORD in parameter_names(built):
                return True
            if built is not None and built.args.kwarg is None:
                break
        # Releases without the keyword copy the logits into a buffer of the activation's dtype.
        return False if cls.defines(STAGING) is not None else None


def _is_candidate(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    func = node.value.func
    name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
    keywords = {k.arg for k in node.value.keywords}
    return (
        isinstance(node.targets[0], ast.Attribute)
        and EXPERTS.search(name) is not None
        and KEYWORD not in keywords
        and None not in keywords
        and bool(keywords & {"num_experts", "top_k"})
    )


def _upcasts(module: Module, owner: ast.ClassDef) -> bool:
    start, end = module.byte_range(owner)
    text = module.source[start:end]
    return b"float" in text or b"dtype" in text


def _torch_at(call: ast.Call) -> ast.expr:
    """The expression ``torch.float32`` as it would stand in a call."""
    expr = ast.parse(FLOAT32, mode="eval").body
    return ast.copy_location(expr, call)


__getattr__ = codemod_command(
    __name__,
    "Tell fused experts that their router's logits are float32.",
)
