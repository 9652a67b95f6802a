"""An integer index whose width is left open, or is the other one, where a kernel expects 32 or 64 bits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

import libcst as cst

from dtypefix.analysis.kernels import (
    is_constexpr,
    is_kernel,
    kernel_of,
    launched,
    parameter_names,
    stores_counter,
)
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import Kind, Value
from dtypefix.analysis.scopes import last_name
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Edit, Evidence, Fix

WIDTHS = frozenset({"int32", "int64", "uint32", "uint64"})
INHERIT = frozenset({"new_empty", "new_zeros"})
TO_DEVICE = "async_tensor_h2d"
INDEX = re.compile(r"(^|_)(idx|index|indices|mapping|slots?|ids|loc|lens)(_np)?$")
FLOATING = re.compile(r"(^|_)(weights?|scales?|bias|logits|probs|hidden_states)$")
VISIBLE = frozenset({"empty", "zeros", "ones", "full", "arange", "array", "fromiter", "cumsum", "nonzero", "astype",
                     "asarray", "argsort", "flatnonzero", "repeat", "ascontiguousarray"})  # fmt: skip

# The last components of the operations that the table lists; the table itself is read when a call is examined.
OPS = frozenset({
    "cutlass_moe_mm", "combine", "dispatch", "trtllm_bf16_routed_moe", "trtllm_fp4_block_scale_routed_moe",
    "trtllm_fp8_block_scale_routed_moe", "cutlass_fused_moe", "flashinfer_cutlass_fused_moe", "fused_experts_cpu",
    "cpu_fused_moe", "swap_blocks",
})  # fmt: skip


class IndexWidth(Rule):
    """Reports the place where the width is left open."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Conditional values in kernels and their launches, and the calls that may take or make an index."""
        kernels = b"triton" in module.source
        pointers = b"data_ptr()" in module.source
        inherited: list[ast.Call] = []
        launching: set[ast.AST | None] = set()
        for node in ast.walk(module.tree):
            if isinstance(node, ast.IfExp) and kernels:
                arms = (node.body, node.orelse)
                if any(isinstance(arm, ast.Constant) for arm in arms):
                    if any(isinstance(arm, ast.Call) and last_name(arm.func) == "load" for arm in arms):
                        yield node
                elif isinstance(parent := module.parents[node], ast.Call) and launched(parent):
                    yield node
            elif isinstance(node, ast.Call):
                name = last_name(node.func)
                if launched(node):
                    launching.add(module.enclosing_function(node))
                elif name in INHERIT:
                    if (
                        kernels
                        and not _keyword(node, "dtype")
                        and isinstance(module.parents[node], ast.Assign)
                    ):
                        inherited.append(node)
                elif name == TO_DEVICE:
                    if len(node.args) < 3 and not _keyword(node, "dtype"):
                        yield node
                elif name in OPS or (
                    pointers and name == "tensor" and node.args and not _keyword(node, "dtype")
                ):
                    yield node
        yield from (call for call in inherited if module.enclosing_function(call) in launching)

    def visit_IfExp(self, node: cst.IfExp) -> None:
        """A literal beside a load, or two widths for one argument of a kernel."""
        choice = self.context.ast_of(node)
        if not isinstance(choice, ast.IfExp):
            return
        function = self.module.enclosing_function(choice)
        parent = self.module.parents[choice]
        if function is not None and is_kernel(function):
            self._literal_arm(choice, function)
        elif isinstance(parent, ast.Call) and launched(parent):
            self._two_widths(choice, parent)

    def visit_Call(self, node: cst.Call) -> None:
        """A call that takes an index or makes one."""
        call = self.context.ast_of(node)
        if not isinstance(call, ast.Call):
            return
        name = last_name(call.func)
        if name in INHERIT:
            self._inherited(call)
        elif name == TO_DEVICE:
            self._to_device(call)
        elif name == "tensor":
            self._pointers(call)
        for row in self.project.knowledge.table("index_width"):
            if f".{ast.unparse(call.func)}".endswith("." + row["op"]):
                self._contract(call, row)

    def _literal_arm(self, choice: ast.IfExp, kernel: FunctionNode) -> None:
        arms = (choice.body, choice.orelse)
        constant = next((a for a in arms if isinstance(a, ast.Constant) and type(a.value) is int), None)
        load = next((a for a in arms if isinstance(a, ast.Call) and last_name(a.func) == "load"), None)
        names = [n.id for n in ast.walk(choice.test) if isinstance(n, ast.Name) and n.id != "tl"]
        if constant is None or load is None or not load.args or all(is_constexpr(kernel, n) for n in names):
            return
        pointer = next((n.id for n in ast.walk(load.args[0]) if isinstance(n, ast.Name) and n.id != "tl"), "")
        if any(is_constexpr(kernel, n) for n in names if n == pointer):
            return
        self._report(
            choice,
            f"the arms of this choice agree only while `{pointer}` points to int32: the literal is int32",
            [
                (load, f"the width here is that of what `{pointer}` points to"),
                (constant, "a literal is int32"),
            ],
            reason=f"make the literal `tl.zeros([], dtype={pointer}.dtype.element_ty)`, or fix the width of the load",
        )

    def _two_widths(self, choice: ast.IfExp, call: ast.Call) -> None:
        flows = self.project.flows(self.module)
        body, other = flows.value(choice.body), flows.value(choice.orelse)
        widths = (_width(body), _width(other))
        if not any(widths) or widths[0] == widths[1] or not (_tensor(body) and _tensor(other)):
            return
        if any(FLOATING.search(ast.unparse(arm)) for arm in (choice.body, choice.orelse)):
            return
        self._report(
            choice,
            f"{launched(call)} gets {body.describe()} or {other.describe()} for one pointer",
            [
                (choice.body, f"the integers here are {body.describe()}"),
                (choice.orelse, f"those here {other.describe()}"),
            ],
            reason="cast the one whose width is known to the width that the kernel is meant to read",
        )

    def _inherited(self, call: ast.Call) -> None:
        if not isinstance(call.func, ast.Attribute) or _keyword(call, "dtype"):
            return
        function = self.module.enclosing_function(call)
        statement = self.module.parents[call]
        if function is None or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return
        target, source = statement.targets[0], call.func.value
        if not isinstance(target, ast.Name) or target.id.endswith(last_name(source) or "?"):
            return
        for launch in (n for n in ast.walk(function) if isinstance(n, ast.Call) and launched(n)):
            kernel = kernel_of(self.module, launch)
            place = next((i for i, a in enumerate(launch.args) if ast.unparse(a) == target.id), None)
            if kernel is None or place is None or place >= len(parameter_names(kernel)):
                continue
            pointer = parameter_names(kernel)[place]
            if stores_counter(kernel, pointer) and not self.project.flows(self.module).value(source).literal:
                source_text = ast.unparse(source)
                made = f"torch.{'empty' if last_name(call.func) == 'new_empty' else 'zeros'}"
                shape = ", ".join(ast.unparse(a) for a in call.args)
                text = f"{made}({shape}, dtype=torch.int32, device={source_text}.device)"
                fix = None
                if not call.keywords:
                    edit = Edit(*self.module.byte_range(call), text)
                    fix = Fix("unsafe", "make it int32", (edit,))
                self._report(
                    call,
                    f"`{target.id}` has the width of `{source_text}`, but the kernel stores int32 counters in it",
                    [(kernel, f"`{pointer}` is only given tl.arange values, which are int32")],
                    fix=fix,
                    reason="give it a dtype of its own",
                )
                return

    def _to_device(self, call: ast.Call) -> None:
        if _keyword(call, "dtype") or _keyword(call, "out") or len(call.args) > 2 or not call.args:
            return
        data, function = call.args[0], self.module.enclosing_function(call)
        if (
            not isinstance(data, ast.Name)
            or not data.id.endswith("_np")
            or not INDEX.search(data.id)
            or not function
        ):
            return
        bound = [
            a.value
            for a in ast.walk(function)
            if isinstance(a, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == data.id for t in a.targets)
        ]
        open_ended = (ast.Attribute, ast.Subscript)
        if not bound or not all(isinstance(v, open_ended) or _is_where(v) for v in bound):
            return
        if any(_visible(value) for value in bound):
            return
        end = self.module.byte_range(call)[1] - 1
        fix = None
        if not self.module.source[:end].rstrip().endswith(b","):
            fix = Fix("unsafe", "pin the width to int32", (Edit(end, end, ", dtype=torch.int32"),))
        self._report(
            call,
            f"`{data.id}` is copied with whatever width numpy gave it elsewhere: int64 unless it was told otherwise",
            [(bound[0], "no dtype is given here")],
            fix=fix,
            reason="pass dtype=",
        )

    def _pointers(self, call: ast.Call) -> None:
        function = self.module.enclosing_function(call)
        if function is None or not call.args or _keyword(call, "dtype"):
            return
        data = call.args[0]
        made = _makes_pointers(data)
        if made is None and isinstance(data, ast.Name):
            made = next((n for n in ast.walk(function) if _fills_with_pointers(n, data.id)), None)
        if made is None:
            return
        end = self.module.byte_range(call)[1] - 1
        fix = None
        if not self.module.source[:end].rstrip().endswith(b","):
            fix = Fix("unsafe", "read them as uint64", (Edit(end, end, ", dtype=torch.uint64"),))
        self._report(
            call,
            "addresses become int64 here: the upper half of the address space does not fit, and kernels read uint64",
            [(made, "these are addresses")],
            fix=fix,
            reason="pass dtype=torch.uint64",
        )

    def _contract(self, call: ast.Call, row: dict[str, Any]) -> None:
        argument = next((k.value for k in call.keywords if k.arg == row["argument"]), None)
        position = row.get("position")
        if argument is None and position is not None and position < len(call.args):
            argument = call.args[position]
        if argument is None:
            return
        if isinstance(argument, ast.Tuple) and argument.elts:
            argument = argument.elts[0]
        value = self.project.flows(self.module).value(argument)
        width, must = _width(value), row["dtype"]
        if width and width != must:
            self._report(
                argument,
                f"{row['op']} reads `{ast.unparse(argument)}` as {must}, and it is {width}",
                [(argument, f"{row['op']} requires {must}: {row['cite']}")],
                level="error",
                reason=f"cast it with .to(torch.{must}) once, where it is made",
            )
        elif (
            row.get("decided") == "elsewhere"
            and (only := value.only) is not None
            and only.kind is Kind.PARAMETER
        ):
            argument = self._entry(argument, only.detail, must)
            if argument is None:
                return
            self._report(
                argument,
                f"{row['op']} reads `{ast.unparse(argument)}` as {must}, and the dispatcher chose its width",
                [(argument, f"{row['op']} requires {must}: {row['cite']}")],
                reason=f"cast it to {must} on entry",
            )

    def _entry(self, argument: ast.expr, parameter: str, must: str) -> ast.expr | None:
        """Where a private method gets the parameter from: the caller's uncast argument, None when callers cast."""
        function, owner = self.module.enclosing_function(argument), self.module.enclosing_class(argument)
        if function is None or owner is None or not function.name.startswith("_"):
            return argument
        names = parameter_names(function)[1:]
        found = None
        for call in (n for n in ast.walk(owner) if isinstance(n, ast.Call)):
            if ast.unparse(call.func) != f"self.{function.name}":
                continue
            passed = next((k.value for k in call.keywords if k.arg == parameter), None)
            if passed is None and parameter in names and names.index(parameter) < len(call.args):
                passed = call.args[names.index(parameter)]
            if passed is not None and _width(self.project.flows(self.module).value(passed)) == must:
                return None
            found = found or passed
        return found or argument

    def _report(
        self,
        at: ast.AST,
        message: str,
        steps: list[tuple[ast.AST, str]],
        *,
        reason: str,
        fix: Fix | None = None,
        level: Any = "warning",
    ) -> None:
        self.context.report(
            at,
            level=level,
            message=message,
            evidence=[Evidence(self.module.path, node.lineno, text) for node, text in steps],  # type: ignore[attr-defined]
            fix=fix,
            unfixed_reason=None if fix else reason,
        )


def _keyword(call: ast.Call, name: str) -> bool:
    return any(keyword.arg == name for keyword in call.keywords)


def _width(value: Value) -> str | None:
    """The integer width when every alternative but None has it."""
    names = {o.detail if o.kind is Kind.LITERAL else "" for o in value.origins if o.kind is not Kind.NONE}
    return next(iter(names)) if len(names) == 1 and names <= WIDTHS else None


def _tensor(value: Value) -> bool:
    return bool(value.origins) and not value.has(Kind.SCALAR) and not value.must_be(Kind.UNKNOWN)


def _visible(value: ast.expr) -> bool:
    """Whether an array's dtype is decided by the expression that makes it."""
    return any(
        isinstance(n, ast.Call) and (last_name(n.func) in VISIBLE or _keyword(n, "dtype"))
        for n in ast.walk(value)
    ) or isinstance(value, ast.BinOp)


def _is_where(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) in ("where", "concatenate")


def _makes_pointers(expr: ast.AST) -> ast.AST | None:
    return next(
        (n for n in ast.walk(expr) if isinstance(n, ast.Call) and last_name(n.func) == "data_ptr"), None
    )


def _fills_with_pointers(node: ast.AST, name: str) -> bool:
    if (
        isinstance(node, ast.Call)
        and last_name(node.func) in ("append", "extend")
        and isinstance(node.func, ast.Attribute)
    ):
        return ast.unparse(node.func.value) == name and _makes_pointers(node) is not None
    if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
        return _makes_pointers(node.value) is not None
    return False


__getattr__ = codemod_command(
    __name__,
    "Fix the width of integer indices that kernels read.",
)
