"""The KV cache's dtype taken from another place than the one that decides it for the layers at hand."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import libcst as cst

from codemods.support import kv_cache_checks as checks
from codemods.support.facts import facts
from codemods.support.kv_cache_claims import claims_too_much, planned_alike, process_wide_default
from dtypefix.analysis.kv_cache import KvCacheNames
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.engine.rule import Rule, RuleContext, codemod_command
from dtypefix.findings import Edit, Fix

NAMES = facts("kv_cache")["kv_cache"]
KEYWORDS = frozenset({*NAMES["layer_keywords"], *NAMES["quantised_flags"]})
GLOBAL_END = frozenset(end.rpartition(".")[2] for end in NAMES["global"])


class KvCacheDtypeSource(Rule):
    """Reports where the KV cache's dtype is read from the wrong place, or not handed down."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self.names = KvCacheNames(self.module, self.project, NAMES)

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Reads of the setting, tests against ``"auto"``, calls and methods that name a cache dtype."""
        for read in module.nodes(ast.Attribute):
            if read.attr in GLOBAL_END and isinstance(read.ctx, ast.Load):
                yield read
        yield from filter(checks.is_auto_test, module.nodes(ast.Compare))
        for call in module.nodes(ast.Call):
            if checks.builds_config(call) or any(k.arg in KEYWORDS for k in call.keywords):
                yield call
        for function in module.nodes(ast.FunctionDef):
            if function.name == NAMES["claim"]:
                yield function
        for assigned in module.nodes(ast.Assign):
            if checks.keeps_resolved(assigned, NAMES["resolved"]):
                yield assigned

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Examine one read of the model-wide dtype."""
        if node.attr.value not in GLOBAL_END:
            return
        read = self.context.ast_of(node)
        if not self.names.is_global(read) if read is not None else True:
            return
        assert isinstance(read, ast.Attribute)
        place = self._place(read)
        if place is None or self._in_group_call(read):
            return
        self._report(read, checks.global_read(self.names, read, place))

    def visit_Comparison(self, node: cst.Comparison) -> None:
        """Examine one test of a cache dtype against "auto"."""
        test = self.context.ast_of(node)
        if isinstance(test, ast.Compare) and checks.is_auto_test(test):
            place = self._place(test)
            if place is not None:
                self._report(test, checks.auto_taken_for_quantised(self.names, test, place))

    def visit_Call(self, node: cst.Call) -> None:
        """Examine one call that is told, or should be told, a cache dtype."""
        func = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        name = func.value if isinstance(func, cst.Name) else ""
        if not any(a.keyword is not None and a.keyword.value in KEYWORDS for a in node.args) and not (
            checks.CACHE_CLASS in name or name == checks.REPLACE
        ):
            return
        call = self.context.ast_of(node)
        place = self._place(call) if isinstance(call, ast.Call) else None
        if place is None or not isinstance(call, ast.Call):
            return
        for keyword, fault in checks.literal_flag(self.names, call, place):
            self._report(keyword.value, fault)
        if checks.is_cache_class(call):
            cls = self.project.resolve_class(self.module, call.func)
            if cls is not None:
                self._report(call, process_wide_default(call, cls, place))
        given = next((k.value for k in call.keywords if k.arg in NAMES["layer_keywords"]), None)
        if given is not None:
            self._report(given, checks.group_call(self.names, call, place))
        self._report(call, checks.draft_config(self.names, call, place))

    def visit_Assign(self, node: cst.Assign) -> None:
        """Examine one attribute that keeps the cache's dtype."""
        if not isinstance(node.value, cst.Attribute) or node.value.attr.value not in NAMES["resolved"]:
            return
        assigned = self.context.ast_of(node)
        place = self._place(assigned) if isinstance(assigned, ast.Assign) else None
        if isinstance(assigned, ast.Assign) and place is not None:
            self._report(assigned, planned_alike(self.names, assigned, place))

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Examine one claim of supported cache formats."""
        if node.name.value != NAMES["claim"]:
            return
        function = self.context.ast_of(node)
        if isinstance(function, FunctionNode):
            cls = self.module.enclosing_class(function)
            ref = self.project.class_of(self.module, cls) if cls is not None else None
            place = checks.Place(self.module, function, ref)
            self._report(function, claims_too_much(self.names, function, place))

    def _place(self, node: ast.AST) -> checks.Place | None:
        function = self.module.enclosing_function(node)
        if function is None:
            return None
        cls = self.module.enclosing_class(node)
        ref = self.project.class_of(self.module, cls) if cls is not None else None
        return checks.Place(self.module, function, ref)

    def _in_group_call(self, read: ast.AST) -> bool:
        """Whether the read is the whole argument of a call that is judged as one."""
        keyword = self.module.parents.get(read)
        call = self.module.parents.get(keyword) if isinstance(keyword, ast.keyword) else None
        place = self._place(read)
        if not isinstance(call, ast.Call) or place is None:
            return False
        return checks.group_call(self.names, call, place) is not None

    def _report(self, at: ast.AST, fault: checks.Fault | None) -> None:
        if fault is None:
            return
        fix = None
        if fault.replacement is not None:
            edit = Edit(*self.module.byte_range(at), fault.replacement)
            fix = Fix("unsafe", f"read {fault.replacement}", (edit,))
        self.context.report(
            at,
            level="warning",
            message=fault.message,
            evidence=fault.evidence,
            fix=fix,
            unfixed_reason=None if fix else fault.reason,
        )


__getattr__ = codemod_command(
    __name__,
    "Read the KV cache's dtype where it is decided for the layers at hand.",
)
