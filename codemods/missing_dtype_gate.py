"""A choice of a kernel or a backend that never looks at the dtype, where its neighbours do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import libcst as cst

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.scopes import last_name
from dtypefix.engine.rule import Rule, RuleContext, codemod_command
from dtypefix.findings import Evidence

SELECTOR = re.compile(r"backend|select_\w*(kernel|impl)")
ELIGIBLE = re.compile(r"^(should|can)_(use|run|custom|quick|fuse)|^should_\w+|_supported$|^can_\w+")
GATE = re.compile(r"^(allow|can_use|enable)_\w+")
FUSED = re.compile(r"^_?(use|enable|can_use|allow)_\w*fus")
DEVICE = re.compile(r"is_cuda\(\)|device_capability")
REGISTER = "register_replacement"
DTYPE_TEST = re.compile(r"dtype")


class MissingDtypeGate(Rule):
    """Reports the gate, or the return, that lacks the test."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._seen: set[ast.AST] = set()

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Selectors, eligibility tests, functions that set several gates, and fusions without a check."""
        for node in ast.walk(module.tree):
            if isinstance(node, FunctionNode):
                if _selects(node) or _tests_tensor(node) is not None or len(list(_gates(node))) > 1:
                    yield node
            elif isinstance(node, ast.Assign):
                if _fused(node):
                    yield node
            elif (
                isinstance(node, ast.Call)
                and last_name(node.func) == REGISTER
                and b"extra_check=" in module.source
            ):
                if not any(k.arg == "extra_check" for k in node.keywords):
                    yield node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Examine one function."""
        function = self.context.ast_of(node)
        if not isinstance(function, FunctionNode):
            return
        if _selects(function):
            self._selector(function)
        tensor = _tests_tensor(function)
        if tensor is not None:
            self._eligibility(function, tensor)
        self._gates(function)

    def visit_Assign(self, node: cst.Assign) -> None:
        """A flag that admits a fused kernel by device and shape alone."""
        flag = self.context.ast_of(node)
        if not isinstance(flag, ast.Assign) or not _fused(flag):
            return
        if "amd/" in self.module.path and "is_cuda()" in ast.unparse(flag.value):
            return  # never true there
        name = last_name(flag.targets[0])
        self._report(
            flag,
            f"`{name}` admits a fused kernel by device and shape, whatever the model dtype is",
            [(flag, "no operand of this condition speaks of a dtype")],
            "the dtypes that the kernel takes are not known here",
        )

    def visit_Call(self, node: cst.Call) -> None:
        """A fusion that is registered without the check that its neighbours have."""
        name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        if not isinstance(name, cst.Name) or name.value != REGISTER:
            return
        call = self.context.ast_of(node)
        if not isinstance(call, ast.Call) or any(k.arg == "extra_check" for k in call.keywords):
            return
        owner = self.module.enclosing_class(call)
        checked = [
            (other, k.value)
            for other in ast.walk(self.module.tree)
            if isinstance(other, ast.Call) and last_name(other.func) == REGISTER
            for k in other.keywords
            if k.arg == "extra_check" and DTYPE_TEST.search(ast.unparse(k.value))
        ]
        mixed = self.project.knowledge.table("half_only")["mixed_norms"]
        if not checked or owner is None or "norm" not in owner.name.lower() or owner in self._seen:
            return
        if any(name in owner.name for name in mixed):
            return
        self._seen.add(owner)
        other, check = checked[0]
        self._report(
            call,
            f"this fusion of a norm is registered without {ast.unparse(check)}, which its neighbours have",
            [(other, f"a neighbour passes extra_check={ast.unparse(check)}")],
            "the check must fit the operands of this pattern",
        )

    def _selector(self, function: FunctionNode) -> None:
        backends = self.project.knowledge.table("half_only")["backends"]
        for node in ast.walk(function):
            if not isinstance(node, ast.Return) or not isinstance(node.value, ast.Attribute):
                continue
            if node.value.attr not in backends or self._path_tests(node, function):
                continue
            self._report(
                node,
                f"{node.value.attr} takes half precision only, and nothing on the way here looks at `dtype`",
                [
                    (function, "the caller says which dtype it needs"),
                    (node, f"{node.value.attr} has no float32 kernels"),
                ],
                "which backend takes float32 on this platform is not known here",
            )

    def _path_tests(self, node: ast.stmt, function: FunctionNode) -> bool:
        """Whether a test around a statement, or an exit before it, reads the dtype."""
        below: ast.AST = node
        for parent in self.module.ancestors(node):
            if isinstance(parent, ast.If) and DTYPE_TEST.search(ast.unparse(parent.test)):
                return True
            for block in ("body", "orelse"):
                statements = getattr(parent, block, None)
                if isinstance(statements, list) and below in statements:
                    for earlier in statements[: statements.index(below)]:
                        if DTYPE_TEST.search(ast.unparse(earlier)):
                            return True
            if parent is function:
                return False
            below = parent
        return False

    def _eligibility(self, function: FunctionNode, tensor: str) -> None:
        if any(self._looks(test) for test in _tests(function)) or self._delegates(function, tensor):
            return
        exits = sorted(
            (n for n in ast.walk(function) if isinstance(n, ast.Return) and _is_false(n.value)),
            key=lambda n: n.lineno,
        )
        self._report(
            exits[0],
            f"{function.name} looks at the shape and layout of `{tensor}`, and never at its dtype",
            [(function, f"`{tensor}` can have any dtype here")],
            "the dtypes that the kernel takes are not known here",
        )

    def _looks(self, test: ast.expr) -> bool:
        """Whether a condition compares a dtype, itself or in a method of this class that it hands the dtype to."""
        for node in ast.walk(test):
            if isinstance(node, ast.Compare) and "dtype" in ast.unparse(node):
                return True
            if isinstance(node, ast.Call) and "dtype" in ast.unparse(node):
                owner = self.module.enclosing_class(test)
                methods = {m.name: m for m in owner.body if isinstance(m, FunctionNode)} if owner else {}
                method = methods.get(last_name(node.func))
                if method is None or any(
                    isinstance(n, ast.Compare) and "dtype" in ast.unparse(n) for n in ast.walk(method)
                ):
                    return True
        return False

    def _delegates(self, function: FunctionNode, tensor: str) -> bool:
        """Whether the tensor itself is handed to another function that may look at its dtype."""
        return any(
            isinstance(call, ast.Call)
            and last_name(call.func) not in ("len", "isinstance", "is_weak_contiguous", "id", "cast")
            and any(
                isinstance(a, ast.Name) and a.id == tensor
                for a in [*call.args, *(k.value for k in call.keywords)]
            )
            for call in ast.walk(function)
        )

    def _gates(self, function: FunctionNode) -> None:
        gates = list(_gates(function))
        looking = [g for g in gates if "dtype" in ast.unparse(g.value)]
        if not looking:
            return
        derived = {last_name(g.targets[0]) for g in looking}
        for gate in gates:
            text = ast.unparse(gate.value)
            if (
                "dtype" in text
                or not isinstance(gate.value, ast.BoolOp)
                or any(name in text for name in derived)
            ):
                continue
            name = last_name(gate.targets[0])
            other = last_name(looking[0].targets[0])
            self._report(
                gate,
                f"`{name}` admits a kernel whatever the dtype is; `{other}` beside it looks",
                [(looking[0], f"`{other}` tests a dtype")],
                "the dtypes that the kernel takes are not known here",
            )

    def _report(self, at: ast.AST, message: str, steps: list[tuple[ast.AST, str]], reason: str) -> None:
        evidence = [Evidence(self.module.path, n.lineno, text) for n, text in steps]  # type: ignore[attr-defined]
        self.context.report(at, level="warning", message=message, evidence=evidence, unfixed_reason=reason)


def _parameters(function: FunctionNode) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _selects(function: FunctionNode) -> bool:
    return bool(SELECTOR.search(function.name)) and any(a.arg == "dtype" for a in _parameters(function))


def _is_false(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def _tests_tensor(function: FunctionNode) -> str | None:
    """The tensor parameter whose layout and shape a function tests before it says no; None otherwise."""
    if not ELIGIBLE.search(function.name):
        return None
    for argument in _parameters(function):
        if argument.annotation is None or not ast.unparse(argument.annotation).endswith("Tensor"):
            continue
        tested: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.If) and any(
                isinstance(s, ast.Return) and _is_false(s.value) for s in node.body
            ):
                for part in ast.walk(node.test):
                    if isinstance(part, ast.Attribute) and ast.unparse(part.value) == argument.arg:
                        tested.add(part.attr)
                    elif isinstance(part, ast.Call) and any(
                        ast.unparse(a) == argument.arg for a in part.args
                    ):
                        tested.add(last_name(part.func))
        if any("contiguous" in name or "stride" in name for name in tested) and len(tested) > 1:
            return argument.arg
    return None


def _fused(statement: ast.Assign) -> bool:
    """Whether a statement sets ``self.use_fused_…`` by the device, and by no dtype."""
    target = statement.targets[0]
    if not isinstance(target, ast.Attribute) or not FUSED.search(target.attr):
        return False
    value = statement.value
    if not isinstance(value, ast.BoolOp) or not isinstance(value.op, ast.And) or len(value.values) < 3:
        return False
    text = ast.unparse(value)
    return bool(DEVICE.search(text)) and not re.search(r"dtype|isinstance|quant_method", text)


def _tests(function: FunctionNode) -> Iterator[ast.expr]:
    """Everything that a function decides by: conditions, assertions and what it returns."""
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp | ast.Assert):
            yield node.test
        elif isinstance(node, ast.Return) and node.value is not None:
            yield node.value


def _gates(function: FunctionNode) -> Iterator[ast.Assign]:
    """Assignments of a condition to ``self.allow_…`` and the like, in the function's own body."""
    for statement in function.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Attribute) and GATE.search(target.attr):
                yield statement


__getattr__ = codemod_command(
    __name__,
    "Report choices of a kernel that never look at the dtype.",
)
