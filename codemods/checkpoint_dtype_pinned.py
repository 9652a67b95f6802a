"""The checkpoint's own dtype is given where the model's is meant, so that ``--dtype`` is ignored."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import libcst as cst

from dtypefix.analysis.carried import carried_dtype
from dtypefix.analysis.dtype_use import sink_of, use_of
from dtypefix.analysis.fallback import inside_block, is_deferred
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.reaching import parameter_default
from dtypefix.edits.arguments import drop_argument
from dtypefix.engine.rule import Rule, codemod_command
from dtypefix.findings import Applicability, Evidence, Fix

MODELS = re.compile(r"(^|/)(models|layers)/(?!.*(ops|kernels|quantization)/)")
CONFIG = re.compile(r"(^|[._])((hf_|hf_text_|text_|vision_|audio_|llm_)?config)$")
ENGINE = re.compile(r"(vllm|model|cache|parallel|quant|lora|moe|scheduler|device|load)_config")
PRETRAINED = re.compile(r"Pre[Tt]rained(Tokenizer)?Config|^transformers\.")
OWN = "vllm.config."
READS = frozenset({"dtype", "torch_dtype"})
LOADS = re.compile(r"load|warmup")
DROPPABLE = re.compile(r"^torch\.(empty|zeros|ones|rand|randn|eye)$")
# Without a dtype these take that of what they are filled with.
FILLED = re.compile(r"^torch\.(full|tensor)$")


class CheckpointDtypePinned(Rule):
    """Reports the read of the checkpoint's dtype."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Reads of ``config.dtype`` and ``config.torch_dtype`` in classes of model and layer code."""
        if not MODELS.search(module.path):
            return
        for node in module.nodes():
            if _config(node) is not None and module.enclosing_class(node) is not None:
                yield node

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Examine one read."""
        if node.attr.value in READS:
            self._examine(self.context.ast_of(node))

    def visit_Call(self, node: cst.Call) -> None:
        """Examine ``getattr(config, "torch_dtype", …)``."""
        if isinstance(node.func, cst.Name) and node.func.value == "getattr":
            self._examine(self.context.ast_of(node))

    def _examine(self, read: ast.AST | None) -> None:
        config = _config(read) if read is not None and MODELS.search(self.module.path) else None
        if config is None or not isinstance(read, ast.expr):
            return
        function = self.module.enclosing_function(read)
        if function is None or LOADS.search(function.name) or not self._is_checkpoint(config):
            return
        use = use_of(self.module, read)
        sink = sink_of(self.module, use)
        if use is None or sink is None:
            return
        path, text = self.module.path, ast.unparse(read)
        evidence = [
            Evidence(path, read.lineno, f"`{text}` is what the checkpoint was saved in"),
            Evidence(path, use.lineno, f"it decides {sink}"),  # type: ignore[attr-defined]
        ]
        carried = carried_dtype(self.module, read)
        if carried is not None:
            name = carried.arg if isinstance(carried, ast.arg) else ast.unparse(carried)
            evidence.append(Evidence(path, carried.lineno, f"`{name}` has the model's dtype"))
        fix, reason = self._fix(read, function)
        self.context.report(
            read,
            level="warning",
            message=f"{text} is the checkpoint's dtype: {sink} does not follow --dtype",
            evidence=evidence,
            fix=fix,
            unfixed_reason=reason,
        )

    def _is_checkpoint(self, config: ast.expr) -> bool:
        """Whether a name like ``config`` can be the checkpoint's configuration, by its annotation."""
        if not isinstance(config, ast.Name):
            return True
        function = self.module.enclosing_function(config)
        for argument in (*function.args.args, *function.args.kwonlyargs) if function is not None else ():
            if argument.arg != config.id or argument.annotation is None:
                continue
            found = self.project.resolve_class(self.module, argument.annotation)
            if found is None:
                return not (self.project.qualified(self.module, argument.annotation) or "").startswith(OWN)
            names = [found.dotted, *found.unresolved_bases]
            return any(PRETRAINED.search(name) for name in names)
        return True

    def _fix(self, read: ast.expr, function: FunctionNode) -> tuple[Fix | None, str | None]:
        """Drop the keyword of a constructor's call, where leaving it out means the default dtype."""
        parent = self.module.parents.get(read)
        chosen = isinstance(parent, ast.IfExp | ast.BoolOp)
        while isinstance(parent, ast.IfExp | ast.BoolOp):
            parent = self.module.parents.get(parent)
        call = self.module.parents.get(parent) if isinstance(parent, ast.keyword) else None
        if (
            not isinstance(parent, ast.keyword)
            or not isinstance(call, ast.Call)
            or function.name != "__init__"
        ):
            return None, "no expression here is known to hold the model's dtype"
        managers = {*self.project.knowledge.default_dtype_managers, "set_default_dtype"}
        if is_deferred(self.module, call) or inside_block(self.module, call, managers):
            return None, "the model's dtype need not be the default one here"
        kind = self._may_drop(call, parent.arg or "")
        if kind is None:
            return None, f"what `{ast.unparse(call.func)}` does without {parent.arg} is not in reach"
        kind = "unsafe" if chosen else kind
        edit = drop_argument(self.module, call, parent)
        return Fix(kind, f"drop {parent.arg}: the model loader sets the default dtype", (edit,)), None

    def _may_drop(self, call: ast.Call, keyword: str) -> Applicability | None:
        name = self.project.qualified(self.module, call.func) or ""
        if DROPPABLE.search(name):
            return "safe"
        if FILLED.search(name):
            filling = [*call.args[-1:], *(k.value for k in call.keywords if k.arg in ("data", "fill_value"))]
            return "safe" if filling and _is_float(filling[-1]) else None
        cls = self.project.resolve_class(self.module, call.func)
        init = cls.method("__init__") if cls is not None else None
        default = parameter_default(init[1], keyword) if init is not None else None
        return "unsafe" if isinstance(default, ast.Constant) and default.value is None else None


def _config(node: ast.AST) -> ast.expr | None:
    """``config`` of ``config.torch_dtype`` or ``getattr(config, "torch_dtype")``, by its name."""
    config, name = None, None
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        config, name = node.value, node.attr
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        if len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            config, name = node.args[0], str(node.args[1].value)
    if name not in READS or not isinstance(config, ast.Name | ast.Attribute):
        return None
    text = ast.unparse(config)
    return config if CONFIG.search(text) and not ENGINE.search(text.rpartition(".")[2]) else None


def _is_float(expr: ast.expr) -> bool:
    """Whether an expression is a floating number as written, or a list of them."""
    if isinstance(expr, ast.UnaryOp):
        return _is_float(expr.operand)
    if isinstance(expr, ast.List | ast.Tuple):
        return bool(expr.elts) and all(map(_is_float, expr.elts))
    return isinstance(expr, ast.Constant) and isinstance(expr.value, float)


__getattr__ = codemod_command(
    __name__,
    "Take the model's dtype where the checkpoint's own is given.",
)
