"""A value that is rounded to a narrow dtype before the arithmetic on it is done."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import libcst as cst

from dtypefix.analysis import rounding
from dtypefix.analysis.kernels import is_kernel
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.scopes import last_name
from dtypefix.engine.rule import Rule, codemod_command

HALF = frozenset({"bfloat16", "float16", "half"})
SCALE = re.compile(r"scale(_inv|s)?$")
LOADS = re.compile(r"load_weights|merge_weights|process_weights")
NUMERIC = re.compile(r"softmax|logsumexp|mean|sum$|norm$|matmul")


class PrecisionChoice(Rule):
    """Reports the rounding that comes too early."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Narrowed accumulators, kept or folded scales, products of weights, dtypes that nobody reads."""
        for node in module.nodes(ast.AugAssign, ast.BinOp, ast.Call, ast.FunctionDef):
            if isinstance(node, ast.AugAssign):
                if isinstance(node.target, ast.Name) and b"triton" in module.source:
                    function = module.enclosing_function(node)
                    if function is not None and is_kernel(function) and rounding.narrowed(function, node):
                        yield node
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
                function = module.enclosing_function(node)
                if function is not None and LOADS.search(function.name):
                    yield node
            elif isinstance(node, ast.Call) and last_name(node.func) in ("to", "bfloat16", "half"):
                if rounding.folded_back(node) or (
                    SCALE.search(rounding.root_of(node)) and rounding.kept(module, node)
                ):
                    yield node
            elif (
                isinstance(node, FunctionNode)
                and NUMERIC.search(node.name)
                and rounding.ignored_dtype(module, node)
            ):
                yield node

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        """``c = acc.to(out)`` and then ``c += bias`` in a kernel: two roundings instead of one."""
        change = self.context.ast_of(node)
        if not isinstance(change, ast.AugAssign) or not isinstance(change.target, ast.Name):
            return
        function = self.module.enclosing_function(change)
        if not isinstance(function, FunctionNode) or not is_kernel(function):
            return
        last = rounding.narrowed(function, change)
        if last is None:
            return
        self.warn(
            change,
            f"`{change.target.id}` is rounded to the output's dtype before this is added, and again after it",
            [
                (last, "the accumulator is narrowed here"),
                (change, "and the arithmetic goes on in the narrow dtype"),
            ],
            "move the arithmetic in front of the cast",
        )

    def visit_BinaryOperation(self, node: cst.BinaryOperation) -> None:
        """A product of weights in their own dtype, while they are loaded."""
        if not isinstance(node.operator, cst.MatrixMultiply):
            return
        product = self.context.ast_of(node)
        function = self.module.enclosing_function(product) if product is not None else None
        if not isinstance(product, ast.BinOp) or function is None or not LOADS.search(function.name):
            return
        flows = self.project.flows(self.module)
        if any(flows.value(side).literal in ("float32", "float64") for side in (product.left, product.right)):
            return
        self.warn(
            product,
            "weights are multiplied in the checkpoint's dtype: the error of the product stays in the weight",
            [(product, "neither operand is raised to float32")],
            "multiply in float32 and cast the product back",
        )

    def visit_Call(self, node: cst.Call) -> None:
        """A scale that is kept in half precision, or folded into what it scales and rounded."""
        call = self.context.ast_of(node)
        if not isinstance(call, ast.Call) or last_name(call.func) not in ("to", "bfloat16", "half"):
            return
        folded = rounding.folded_back(call)
        if folded:
            self.warn(
                call,
                f"the scale is folded into `{folded}` in float32 and rounded back to the dtype it came from",
                [(call, "the product needs more bits than the operand had")],
                "hand the scale on, or keep the product in float32",
            )
            return
        function = self.module.enclosing_function(call)
        if function is None or not rounding.keeps(function) or not isinstance(call.func, ast.Attribute):
            return
        name = rounding.root_of(call)
        if not SCALE.search(name) or not self._half(call) or not rounding.kept(self.module, call):
            return
        self.warn(
            call,
            f"`{name}` is kept in half precision: everything it scales inherits its rounding",
            [(call, "8 (bfloat16) or 11 (float16) bits are kept of the scale")],
            "keep it in float32 where the kernel takes that",
        )

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """A numeric function that takes a dtype and never reads it."""
        if not NUMERIC.search(node.name.value):
            return
        function = self.context.ast_of(node)
        if not isinstance(function, FunctionNode):
            return
        ignored = rounding.ignored_dtype(self.module, function)
        if ignored is not None:
            self.warn(
                ignored,
                f"{function.name} takes `{ignored.arg}` and never reads it: the input's precision stays",
                [(function, f"callers that pass `{ignored.arg}` expect the computation to be done in it")],
                f"convert the input to `{ignored.arg}` first",
            )

    def _half(self, call: ast.Call) -> bool:
        if last_name(call.func) in HALF:
            return True
        target = next(
            (k.value for k in call.keywords if k.arg == "dtype"), call.args[0] if call.args else None
        )
        return target is not None and self.project.flows(self.module).value(target).literal in HALF


__getattr__ = codemod_command(
    __name__,
    "Report values that are rounded before the arithmetic on them is done.",
)
