"""A fixed 8-bit floating format where the platform's own is meant: ROCm's gfx94x computes in e4m3fnuz."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

import libcst as cst

from dtypefix.analysis import fp8_formats
from dtypefix.analysis.fp8_formats import Use
from dtypefix.analysis.module import Module
from dtypefix.analysis.platforms import cuda_only_class, named_after
from dtypefix.analysis.scopes import last_name
from dtypefix.edits.imports import import_edit
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Edit, Evidence, Fix

PLATFORM = "current_platform"
PLATFORMS = "vllm.platforms"
CONVERT = "normalize_e4m3fn_to_e4m3fnuz"


class HardCodedFp8Format(Rule):
    """Reports, once per function, the first place that fixes the format."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self._done: set[ast.AST] = set()

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """The first use in each function that fixes a format, and the conversions of weights."""
        seen: set[ast.AST] = set()
        for node in module.nodes(ast.Attribute, ast.Constant, ast.Call):
            if isinstance(node, ast.Call) and last_name(node.func) == CONVERT:
                if fp8_formats.converted_unseen(module, node):
                    yield node
            elif fp8_formats.mentions(node):
                scope = fp8_formats.scope_of(module, node)
                if scope is not None and scope not in seen:
                    seen.add(scope)
                    yield from [use.node for use in fp8_formats.open_uses(module, scope)][:1]

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """A format by name."""
        if node.attr.value in fp8_formats.NAMES:
            self._at(self.context.ast_of(node))

    def visit_Float(self, node: cst.Float) -> None:
        """The largest value of e4m3fn."""
        if node.evaluated_value == fp8_formats.LARGEST:
            self._at(self.context.ast_of(node))

    def visit_Call(self, node: cst.Call) -> None:
        """``finfo`` of the platform's format, and weights converted without a look at their dtype."""
        name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        if not isinstance(name, cst.Name) or name.value not in ("finfo", CONVERT):
            return
        call = self.context.ast_of(node)
        if name.value == "finfo":
            self._at(call)
        elif isinstance(call, ast.Call):
            self._conversion(call)

    def _at(self, node: ast.AST | None) -> None:
        """Examine, once, the function or module-level statement around a node."""
        if node is None:
            return
        scope = fp8_formats.scope_of(self.module, node)
        if scope is None or scope in self._done:
            return
        self._done.add(scope)
        facts = self.project.knowledge.table("rocm")
        source = self.module.source.lower() if named_after(self.module, node, facts["own"]) else b""
        if any(name.encode() in source for name in facts["one_device"]):
            return
        if named_after(self.module, node, (*facts["never"], *facts["formats"])) or cuda_only_class(
            self.module, node
        ):
            return
        found = fp8_formats.open_uses(self.module, scope)
        if found:
            self._report(scope, found)

    def _report(self, scope: ast.AST, found: list[Use]) -> None:
        path = self.module.path
        evidence = [Evidence(path, use.node.lineno, use.what) for use in found]
        known = self._knows_platform()
        if known is not None:
            evidence.append(
                Evidence(path, known.lineno, "the same file asks the platform for its format here")
            )
        evidence.append(
            Evidence(path, found[0].node.lineno, "ROCm's gfx94x computes in e4m3fnuz (largest value 224)")
        )
        fix = self._fix(scope, found)
        self.context.report(
            found[0].node,
            level="note" if all(use.weak for use in found) else "warning",
            message=f"{found[0].what}, on ROCm's gfx94x too",
            evidence=evidence,
            fix=fix,
            unfixed_reason=None if fix else self._reason(scope, found),
        )

    def _reason(self, scope: ast.AST, found: list[Use]) -> str:
        if any(not use.replaceable for use in found):
            return "the kernel or its limits must take the format from the caller, who asks the platform"
        if "finfo(" in self.module.text(scope):
            return "the limits have to become those of get_fp8_min_max() together with it"
        return "nothing in reach tells the platform's format"

    def _knows_platform(self) -> ast.Call | None:
        for node in self.module.nodes(ast.Call):
            if last_name(node.func) in ("fp8_dtype", "is_fp8_fnuz"):
                return node
        return None

    def _fix(self, scope: ast.AST, found: list[Use]) -> Fix | None:
        """Ask the platform instead, where every use is a name and the project has the question."""
        if not all(use.replaceable for use in found) or not self.module.name.startswith("vllm."):
            return None
        if "finfo(" in self.module.text(scope):
            return None
        text = f"{PLATFORM}.fp8_dtype()"
        edits = [Edit(*self.module.byte_range(use.node), text) for use in found]
        bound = self.project.imports(self.module).from_modules().get(PLATFORM)
        if bound is None:
            added = import_edit(self.module, PLATFORMS, PLATFORM, self.project.line_length(self.module))
            if added is None:
                return None
            edits.append(added)
        elif bound != f"{PLATFORMS}.{PLATFORM}":
            return None
        return Fix("unsafe", f"ask {text}", tuple(edits))

    def _conversion(self, call: ast.Call) -> None:
        """A weight of the caller's is converted on the platform's word alone: it may be fnuz already."""
        weight = fp8_formats.converted_unseen(self.module, call)
        if weight is None:
            return
        branch = next((p for p in self.module.ancestors(call) if isinstance(p, ast.If)), None)
        fix = None
        if branch is not None and "is_fp8_fnuz" in ast.unparse(branch.test):
            at = self.module.byte_range(branch.test)[1]
            edit = Edit(at, at, f" and {weight}.dtype == torch.float8_e4m3fn")
            fix = Fix("unsafe", f"test {weight}.dtype as well", (edit,))
        self.warn(
            call,
            f"`{weight}` is converted without a look at its dtype: it may be e4m3fnuz already",
            [(call, f"{CONVERT} asserts that the weight is float8_e4m3fn")],
            "the test around it is not understood",
            fix,
        )


__getattr__ = codemod_command(
    __name__,
    "Ask the platform for its 8-bit floating format instead of naming one.",
)
