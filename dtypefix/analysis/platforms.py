"""Whether code can run on a platform, as its place and the tests around it tell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from dtypefix.analysis.module import FunctionNode, Module

# A test that decides for one platform or one vendor's library; `is_cuda_alike` does not.
_DECIDES = re.compile(
    r"is_cuda\b(?!_alike)|is_rocm|is_xpu|is_cpu|is_tpu|is_hip\b|_is_npu|fnuz|e4b8|gfx\d|has_flashinfer|has_cute"
    r"|device_capability|cutlass|flashinfer|is_deep_gemm_supported|marlin|nvfp4|mxfp|fp4|torch\.version\.(hip|cuda)",
    re.IGNORECASE,
)
_CUDA_ONLY = re.compile(
    r"is_cuda\(\)|_is_cuda\b|has_device_capability|is_device_capability|is_deep_gemm_supported|cutlass|flashinfer"
)
_INCLUSIVE = re.compile(r"is_cuda_alike|is_rocm|rocm|is_hip")
# Methods that say where a class can be used.
_GATES = frozenset(
    {
        "_supports_current_device",
        "is_supported",
        "can_implement",
        "supports_compute_capability",
        "is_available",
    }
)


def named_after(module: Module, node: ast.AST, parts: Sequence[str]) -> str | None:
    """The first of ``parts`` that the module's path or the symbol around a node holds, or None."""
    path, symbol = "/" + module.path.lower(), module.symbol(node).lower()
    return next((part for part in parts if part in path or part in symbol), None)


def deciding_test(module: Module, node: ast.AST) -> ast.expr | None:
    """The test around, or the exit before, a node that picks a platform or a vendor's library."""
    below: ast.AST = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.If | ast.IfExp | ast.While) and below is not parent.test:
            if _DECIDES.search(ast.unparse(parent.test)):
                return parent.test
        elif isinstance(parent, ast.BoolOp):
            for value in parent.values:
                if value is not below and _DECIDES.search(ast.unparse(value)):
                    return value
        if isinstance(below, ast.stmt):
            for test in _exits_before(parent, below):
                if _CUDA_ONLY.search(ast.unparse(test)):
                    return test
        if isinstance(parent, FunctionNode):
            break
        below = parent
    return None


def _exits_before(parent: ast.AST, statement: ast.stmt) -> Iterator[ast.expr]:
    """Tests of assertions, and of early exits, that stand before a statement in its block."""
    body = getattr(parent, "body", None)
    if not isinstance(body, list) or statement not in body:
        return
    for earlier in body[: body.index(statement)]:
        leaves = isinstance(earlier, ast.If) and isinstance(earlier.body[-1], ast.Return | ast.Raise)
        if isinstance(earlier, ast.Assert | ast.If) and (leaves or isinstance(earlier, ast.Assert)):
            yield earlier.test


def cuda_only_class(module: Module, node: ast.AST) -> ast.AST | None:
    """The method of the class around a node that admits CUDA devices only, or None."""
    owner = module.enclosing_class(node)
    if owner is None:
        return None
    for member in owner.body:
        if isinstance(member, FunctionNode) and member.name in _GATES:
            text = ast.unparse(member)
            if _CUDA_ONLY.search(text) and not _INCLUSIVE.search(text):
                return member
    return None
