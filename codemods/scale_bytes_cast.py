"""Scales that are stored as bytes of an exponent (E8M0) and taken for numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import libcst as cst

from dtypefix.analysis.fp8_formats import root_name
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.scopes import last_name
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Evidence

DEQUANTISE = "scaled_dequantize"
MICROSCALING = re.compile(r"mxfp|fp4|ocp_mx|microscal", re.IGNORECASE)
OTHER_FORMAT = re.compile(r"nvfp4", re.IGNORECASE)
KNOWS = re.compile(r"e8m0|ue8m0|<< 23|exp2|ldexp", re.IGNORECASE)
SCALE = re.compile(r"weight_scale(?!_2)|scale_inv")
NUMBERS = re.compile(r"params?_dtype$|^torch\.(float32|bfloat16|float16|half|float)$")
LOADS = re.compile(r"load")


class ScaleBytesCast(Rule):
    """Reports the cast, or the dequantisation, that takes bytes for numbers."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Casts of a stored scale, and dequantisation while a checkpoint is loaded."""
        for node in module.nodes(ast.Call):
            if isinstance(node, ast.Call):
                name = last_name(node.func)
                if name == DEQUANTISE or (name == "to" and "scale" in ast.unparse(node.func)):
                    yield node

    def visit_Call(self, node: cst.Call) -> None:
        """Examine one call."""
        name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        if not isinstance(name, cst.Name) or name.value not in (DEQUANTISE, "to"):
            return
        call = self.context.ast_of(node)
        function = self.module.enclosing_function(call) if call is not None else None
        if not isinstance(call, ast.Call) or function is None:
            return
        if name.value == "to":
            self._cast(call, function)
        else:
            self._dequantise(call, function)

    def _cast(self, call: ast.Call, function: FunctionNode) -> None:
        """``layer.weight_scale.to(params_dtype)`` where the layer can be a microscaling one."""
        if (
            not isinstance(call.func, ast.Attribute)
            or not call.args
            or not NUMBERS.search(ast.unparse(call.args[0]))
        ):
            return
        outer = [p for p in self.module.ancestors(call) if isinstance(p, FunctionNode)]
        names = " ".join(f.name for f in outer)
        if not MICROSCALING.search(names) or OTHER_FORMAT.search(names):
            return
        source = ast.unparse(call.func.value)
        stored = "layer" in source and SCALE.search(source)
        if not stored or "global" in source or any(KNOWS.search(self.module.text(f)) for f in outer):
            return
        self.context.report(
            call,
            level="warning",
            message=f"`{source}` can hold E8M0 bytes: a cast makes numbers of 0 to 255 of them, no scales",
            evidence=[
                Evidence(
                    self.module.path,
                    function.lineno,
                    "such layers may keep their scales as exponent bytes",
                ),
                Evidence(self.module.path, call.lineno, "a numeric cast is right for a floating scale only"),
            ],
            unfixed_reason="view the bytes as torch.float8_e8m0fnu first in a microscaling format",
        )

    def _dequantise(self, call: ast.Call, function: FunctionNode) -> None:
        """A scale out of a checkpoint goes into the dequantisation without a look at its dtype."""
        scale = next(
            (k.value for k in call.keywords if k.arg == "x_s"), call.args[1] if len(call.args) > 1 else None
        )
        if not isinstance(scale, ast.Name) or not LOADS.search(function.name):
            return
        text = self.module.text(function)
        if f"{scale.id}.dtype" in text or KNOWS.search(text):
            return
        self.context.report(
            scale,
            level="warning",
            message=f"`{root_name(scale)}` of the checkpoint is taken for numbers; MXFP8 keeps E8M0 bytes",
            evidence=[
                Evidence(self.module.path, call.lineno, f"{DEQUANTISE} multiplies by the scale as it is"),
                Evidence(
                    self.module.path,
                    function.lineno,
                    f"nothing in {function.name} looks at the scale's dtype",
                ),
            ],
            unfixed_reason="which formats this checkpoint can have is not known here",
        )


__getattr__ = codemod_command(
    __name__,
    "Report scales stored as exponent bytes that are taken for numbers.",
)
