"""A result leaves a function in another dtype than its consumer was promised."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from dtypefix.analysis.evidence import evidence_at, evidence_of
from dtypefix.analysis.flow import Flow
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import Form, Kind, Value, Verb
from dtypefix.analysis.outputs import (
    elements,
    emptied_weights,
    follows,
    ignored_dtype,
    is_upcast,
    may_be_upcast,
    parts,
    placeholders,
    registrations,
    restored,
    suspects,
)
from dtypefix.analysis.scopes import last_name
from dtypefix.engine.codemod import RuleCommand
from dtypefix.engine.rule import Rule
from dtypefix.findings import Evidence, Fix

REGISTER = frozenset({"direct_register_custom_op"})
UPCAST = re.compile(r"\.float\(\)|\.to\((dtype=)?torch\.float(32)?\)|, torch\.float32\)")
ALLOCATIONS = frozenset({"empty", "zeros", "empty_like", "zeros_like", "new_empty", "new_zeros"})
OUTPUT = re.compile(r"(^|_)(out|output|o)(_|$)|result")
NATIVE = frozenset({"forward_native", "forward_static"})
QUANTISED = frozenset({"int8", "uint8", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"})


class WrongOutputDtype(Rule):
    """Examines what each function returns and allocates for its result."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Functions with an upcast, a placeholder, a fake twin or a quantised name in them."""
        yield from (function for function, _ in suspects(module, REGISTER, NATIVE))

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Examine one function."""
        function = self.context.ast_of(node)
        if not isinstance(function, FunctionNode):
            return
        why = self._suspects.get(function, frozenset())
        flow = self.project.flows(self.module).function(function)
        if "fake" in why:
            for real, fake in registrations(self.module, REGISTER):
                if fake is function:
                    self._fake(real, flow)
        if "empty" in why:
            self._emptied(function)
            self._placeholders(function, flow)
        if "upcast" in why:
            self._returns(function, flow)
        if "rebound" in why:
            self._rebound(function, flow)
        if "native" in why:
            self._native(function, flow)

    @cached_property
    def _suspects(self) -> dict[FunctionNode, frozenset[str]]:
        return dict(suspects(self.module, REGISTER, NATIVE))

    def visit_Call(self, node: cst.Call) -> None:
        """Examine a kernel whose result takes its query's dtype."""
        call = (
            self.context.ast_of(node)
            if any(a.keyword and a.keyword.value == "query" for a in node.args)
            else None
        )
        row = (
            follows(call, self.project.knowledge.table("output_follows"))
            if isinstance(call, ast.Call)
            else None
        )
        if row is None or not isinstance(call, ast.Call):
            return
        given = next((k.value for k in call.keywords if k.arg == row["argument"]), call)
        value = self.project.flows(self.module).value(given)
        if value.has(Kind.MODEL) or value.unknown:
            return
        name, argument = last_name(call.func), row["argument"]
        self._warn(
            call.func,
            f"{name} returns the dtype of its {argument}, which is fp8 once that is quantised",
            [
                *evidence_of(value, self.module, 3),
                evidence_at(call, self.module, f"nothing but {argument} decides"),
            ],
            f"pass {row['unless'][1]}, the model dtype",
        )

    def _warn(
        self, at: ast.AST, message: str, evidence: list[Evidence], reason: str, fix: Fix | None = None
    ) -> None:
        self.context.report(
            at,
            level="warning",
            message=message,
            evidence=evidence,
            fix=fix,
            unfixed_reason=None if fix else reason,
        )

    def _emptied(self, function: FunctionNode) -> None:
        for node in emptied_weights(function):
            if self.module.enclosing_function(node) is not function:
                continue
            target = ast.unparse(node.targets[0])
            self._warn(
                node,
                f"{target} is emptied without a dtype, so {target}.dtype becomes the default dtype",
                [
                    evidence_at(
                        node, self.module, f"whoever asks {target}.dtype for the compute dtype gets float32"
                    )
                ],
                "give the placeholder the dtype that the weight had",
            )

    def _placeholders(self, function: FunctionNode, flow: Flow) -> None:
        for found in placeholders(function):
            like, made = flow.value(found.dtype), flow.value(found.made)
            if like.only is None or like.only.kind is not Kind.PARAMETER or made.same_dtype(like):
                continue
            if self.module.enclosing_function(found.empty) is not function:
                continue
            self._warn(
                found.empty,
                f"the empty {found.name} has its input's dtype, the other arm that of the layer's output",
                [
                    evidence_at(found.made, self.module, f"{found.name} is what the layer returns here"),
                    evidence_at(found.empty, self.module, f"and {like.describe()} here"),
                ],
                "which dtype the layer returns has to be named",
            )

    def _returns(self, function: FunctionNode, flow: Flow) -> None:
        returns = [r for r in flow.returns() if r.value.form is not Form.NONE]
        undone = [{restored(flow, e) for e in elements(r)} - {None} for r in returns]
        ignored = ignored_dtype(function)
        for returned, here in zip(returns, undone, strict=True):
            others = set().union(*undone)
            for expr, value in zip(elements(returned), parts(returned.value), strict=False):
                if ignored and len(returns) == 1 and may_be_upcast(value):
                    self._unrestored(function, expr, value, "the input", f"although {ignored} may be None")
                    continue
                if not is_upcast(value):
                    continue
                name = _rebound_parameter(function, flow, expr)
                source = next((s.node.arg for s in value.chain() if isinstance(s.node, ast.arg)), "")
                if here and name:
                    why = f"where the other element is cast back to the dtype of {next(iter(here))}"
                elif not here and source in others and len(elements(returned)) == 1:
                    why = f"where another path casts back to the dtype of {source}"
                else:
                    continue
                self._unrestored(function, expr, value, name or source, why)

    def _unrestored(
        self, function: FunctionNode, expr: ast.expr, value: Value, source: str, why: str
    ) -> None:
        self._warn(
            expr,
            f"{ast.unparse(expr)[:60]} is returned in float32, {why}",
            [
                *evidence_of(value, self.module),
                evidence_at(expr, self.module, "it leaves the function like that"),
            ],
            f"capture {source}.dtype before the upcast and cast back to it",
        )

    def _rebound(self, function: FunctionNode, flow: Flow) -> None:
        """Dtypes read from a name after it was rebound to its upcast or quantised self."""
        for node in ast.walk(function):
            role = self._role(node) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else None
            if (
                role is None
                or not isinstance(node, ast.Name)
                or self.module.enclosing_function(node) is not function
            ):
                continue
            value = flow.value(node)
            literal = value.literal or ("fp8" if value.must_be(Kind.PLATFORM_FP8) else "")
            history = flow.history(node)
            first = next((b.before for b in history if b.before is not None), None)
            if first is None or not first.must_be(Kind.PARAMETER):
                continue
            upcast = role == "restores" and literal == "float32"
            if not upcast and not (role == "allocates" and (literal in QUANTISED or literal == "fp8")):
                continue
            name = node.id
            self._warn(
                node,
                f"the dtype of {name} is read after it was rebound to {literal}, not its input's dtype",
                [
                    *evidence_of(value, self.module),
                    evidence_at(node, self.module, f"which is no longer the dtype that {name} came in with"),
                ],
                f"capture {name}.dtype before it is rebound",
            )

    def _role(self, name: ast.Name) -> str | None:
        """What the dtype of a name is read for: to restore a returned value, or to allocate an output."""
        around = self.module.parents.get(name)
        if isinstance(around, ast.Attribute) and around.attr == "dtype":
            around = self.module.parents.get(around)
        call = self.module.parents.get(around) if isinstance(around, ast.keyword) else around
        if isinstance(call, ast.Attribute) and call.attr in ALLOCATIONS:
            call = self.module.parents.get(call)
        if not isinstance(call, ast.Call):
            return None
        if isinstance(call.func, ast.Attribute) and call.func.attr == "to" and call.func.value is not name:
            return "restores" if isinstance(self.module.parents.get(call), ast.Return | ast.Tuple) else None
        statement = self.module.parents.get(call)
        if last_name(call.func) in ALLOCATIONS and isinstance(statement, ast.Assign):
            return "allocates" if OUTPUT.search(ast.unparse(statement.targets[0])) else None
        return None

    def _native(self, function: FunctionNode, flow: Flow) -> None:
        """A norm that takes its variance in the input's dtype, beside one that takes it in float32."""
        owner = self.module.parents.get(function)
        if function.name not in NATIVE or not isinstance(owner, ast.ClassDef) or "Norm" not in owner.name:
            return
        twin = next(
            (t for c in self.module.tree.body if c is not owner for t in _upcasting(self.module, c)), None
        )
        for node in ast.walk(function):
            if (
                twin is None
                or not isinstance(node, ast.Call)
                or last_name(node.func) not in ("pow", "square")
            ):
                continue
            operand = node.func.value if isinstance(node.func, ast.Attribute) else node
            value = flow.value(operand)
            if value.form is Form.TENSOR and any(o.kind is Kind.PARAMETER for o in value.origins):
                self._warn(
                    node,
                    f"{owner.name}.{function.name} takes the variance in its input's dtype, others in float32",
                    [*evidence_of(value, self.module), evidence_at(twin, self.module, "a twin casts first")],
                    "cast the input to float32 and the result back",
                )
                return

    def _fake(self, real: FunctionNode, fake: Flow) -> None:
        """A fake kernel that promises another dtype than the kernel returns."""
        flow = self.project.flows(self.module).function(real)
        mine = [r for r in fake.returns() if r.value.form is not Form.NONE]
        theirs = [_returned(flow, r.value, r.node) for r in flow.returns() if r.value.form is not Form.NONE]
        if len(mine) != 1 or not theirs or len({len(t) for t in theirs} | {len(parts(mine[0].value))}) != 1:
            return
        for index, (expr, value) in enumerate(zip(elements(mine[0]), parts(mine[0].value), strict=False)):
            others = [t[index] for t in theirs]
            if not _differs(value, others):
                continue
            self._warn(
                expr,
                f"the fake returns {value.describe()}, the kernel {others[0].describe()}",
                [
                    *evidence_of(value, self.module, 3),
                    Evidence(self.module.path, real.lineno, f"{real.name} is the kernel"),
                ],
                "the fake has to give the kernel's dtype",
            )


def _returned(flow: Flow, value: Value, node: ast.Return) -> tuple[Value, ...]:
    """What a kernel returns; a call that was given ``out=`` returns that."""
    found = []
    exprs = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    for expr, part in zip(exprs, parts(value), strict=False):
        only = part.only
        call = flow.calls.get(only.at[:2]) if only is not None and only.kind is Kind.OUTPUT else None
        out = next((k.value for k in call.keywords if k.arg == "out"), None) if call is not None else None
        found.append(flow.value(out) if out is not None else part)
        del expr
    return tuple(found)


def _differs(fake: Value, real: list[Value]) -> bool:
    kinds = (Kind.LITERAL, Kind.PARAMETER, Kind.MODEL, Kind.PLATFORM_FP8)
    if not fake.must_be(*kinds) or not all(r.must_be(*kinds) for r in real):
        return False
    if any(fake.origins & r.origins for r in real) or any(_tested(v) for v in (fake, *real)):
        return False
    named = (Kind.LITERAL, Kind.PLATFORM_FP8)
    return fake.must_be(*named) or all(r.must_be(*named) for r in real)


def _tested(value: Value) -> bool:
    """Whether a test, rather than the code, says what a dtype is."""
    return any(step.verb is Verb.TESTED for step in value.chain())


def _rebound_parameter(function: FunctionNode, flow: Flow, expr: ast.expr) -> str | None:
    """The parameter that a returned name is, if the function rebound it."""
    names = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    return expr.id if isinstance(expr, ast.Name) and expr.id in names and flow.history(expr) else None


def _upcasting(module: Module, node: ast.stmt) -> list[FunctionNode]:
    if not isinstance(node, ast.ClassDef) or "Norm" not in node.name:
        return []
    return [
        m
        for m in node.body
        if isinstance(m, FunctionNode) and m.name in NATIVE and UPCAST.search(module.text(m))
    ]


class Command(RuleCommand):
    """``python -m libcst.tool codemod -x codemods.wrong_output_dtype.Command PATH``."""

    DESCRIPTION = "Find results that leave a function in another dtype than promised."
    RULE = "wrong-output-dtype"
