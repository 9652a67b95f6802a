"""A whole module, built with a quantisation config, is cast to one dtype."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import libcst as cst

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.packed import QUANT_CONFIG
from dtypefix.analysis.reaching import bindings
from dtypefix.analysis.walking import walk
from dtypefix.analysis.witness import path_of
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Evidence

SHORT = frozenset({"half", "bfloat16"})
GUARD = re.compile(r"quant")
FLOAT32 = ("torch.float32", "torch.float")
DTYPE = re.compile(r"(^|[._])dtype$|^torch\.(bfloat16|float16|half)$")
LITERAL_SCOPE = re.compile(r"set_default(_torch)?_dtype$")


class ModuleToDtype(Rule):
    """Reports the cast."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Casts of ``self.x`` or a local name inside a function that builds something with a config."""
        for node in module.nodes():
            if isinstance(node, ast.Call) and _cast(node) is not None:
                function = module.enclosing_function(node)
                if function is not None and any(True for _ in _configured(function)):
                    yield node

    def visit_Call(self, node: cst.Call) -> None:
        """Examine one cast."""
        call = self.context.ast_of(node)
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return
        dtype, module = _cast(call), call.func.value
        if dtype is None:
            return
        built = self._built(module)
        if built is None or self._is_guarded(call) or self._restores(built):
            return
        config = next(k.value for k in built.keywords if k.arg == QUANT_CONFIG)
        path, text = self.module.path, ast.unparse(module)
        evidence = [
            Evidence(path, built.lineno, f"`{text}` is built with {QUANT_CONFIG}={ast.unparse(config)}"),
            Evidence(path, call.lineno, f"all its floating parameters and buffers become `{dtype}`"),
        ]
        sibling = self._sibling(call)
        if sibling is not None:
            words = f"the cast of `{ast.unparse(sibling.func.value)}` is guarded"  # type: ignore[attr-defined]
            evidence.append(Evidence(path, sibling.lineno, words))
        self.context.report(
            call,
            level="warning",
            message=f"{text} can be quantised, and the cast converts its 8-bit weights and its scales too",
            evidence=evidence,
            unfixed_reason="the cast has to be left out where the module is quantised: "
            + (f"see line {sibling.lineno}" if sibling is not None else "test its quant_config"),
        )

    def _built(self, module: ast.expr) -> ast.Call | None:
        """The call with a configuration that builds ``self.x`` or a local name."""
        path = path_of(module)
        if path is not None and len(path) == 1:
            owner = self.module.enclosing_class(module)
            values = self.project.class_of(self.module, owner).attribute_values(path[0]) if owner else []
            found = [v.value for v in values if v.owner.module is self.module]
        elif isinstance(module, ast.Name):
            found = [b.value for b in bindings(self.module, module.id, module) if b.index is None]
        else:
            return None
        for value in found:
            for arm in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
                if isinstance(arm, ast.Call) and _has_config(arm):
                    return arm
        return None

    def _is_guarded(self, call: ast.AST) -> bool:
        for parent in self.module.ancestors(call):
            if isinstance(parent, ast.If | ast.IfExp) and GUARD.search(ast.unparse(parent.test)):
                return True
            if isinstance(parent, FunctionNode):
                return False
        return False

    def _restores(self, built: ast.Call) -> bool:
        """Whether the module is built under a default dtype of its own, which the cast takes back."""
        for parent in self.module.ancestors(built):
            if isinstance(parent, ast.With):
                for item in parent.items:
                    manager = item.context_expr
                    if isinstance(manager, ast.Call) and LITERAL_SCOPE.search(ast.unparse(manager.func)):
                        return True
        return False

    def _sibling(self, call: ast.Call) -> ast.Call | None:
        """Another cast of the same function that a test for quantisation guards."""
        function = self.module.enclosing_function(call)
        for node in walk(function) if function is not None else ():
            if isinstance(node, ast.Call) and node is not call and _cast(node) and self._is_guarded(node):
                return node
        return None


def _cast(call: ast.Call) -> str | None:
    """The dtype that ``x.to(…)`` or ``x.half()`` gives a whole object ``self.x`` or ``x``."""
    func = call.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name | ast.Attribute):
        return None
    if func.attr in SHORT and not call.args and not call.keywords:
        return func.attr
    if func.attr != "to":
        return None
    named = next((k.value for k in call.keywords if k.arg == "dtype"), None)
    for value in (named, *call.args[:2]):
        text = ast.unparse(value) if value is not None else ""
        # A module that is made float32 on purpose is left alone.
        if text in FLOAT32:
            return None
        if text and (value is named or DTYPE.search(text)):
            return text
    return None


def _has_config(call: ast.Call) -> bool:
    return any(
        k.arg == QUANT_CONFIG and not (isinstance(k.value, ast.Constant) and k.value.value is None)
        for k in call.keywords
    )


def _configured(function: FunctionNode) -> Iterator[ast.Call]:
    for node in walk(function):
        if isinstance(node, ast.Call) and _has_config(node):
            yield node


__getattr__ = codemod_command(
    __name__,
    "Report casts of whole modules that can be quantised.",
)
