"""``torch.get_default_dtype()`` decides an output dtype, where the model's configuration should."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import libcst as cst

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.edits.imports import import_edit
from dtypefix.engine.codemod import RuleCommand
from dtypefix.engine.rule import Rule
from dtypefix.findings import Edit, Evidence, Fix

AMBIENT = "torch.get_default_dtype"
CONFIG = "get_current_vllm_config"
OUTPUT_NAME = re.compile(r"(^|_)(out|output)_dtype$|result_dtype$")
OUTPUT_PARAMETER = re.compile(r"(^|_)(out|output)_(d?type)$|result_dtype$")
CONFIG_READ = re.compile(r"\bmodel_config\.dtype$")
LITERAL_SCOPE = re.compile(r"set_default(_torch)?_dtype$")

BUILD = frozenset({"__init__", "create_weights", "load_weights", "__post_init__"})
BOTH = frozenset({"process_weights_after_loading"})
RUN = re.compile(r"^(forward|apply|__call__|_?fake_|embed|compute_logits)|_fake$|_impl$|_abstract$")


class AmbientOutDtype(Rule):
    """Reports each read of the ambient dtype that ends in an output dtype."""

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """Calls of something named ``get_default_dtype``, or of a name imported or assigned from it."""
        names = {AMBIENT.rpartition(".")[2]}
        calls = []
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and not node.args and not node.keywords:
                calls.append(node)
            elif isinstance(node, ast.alias) and node.name in names and node.asname:
                names.add(node.asname)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
                if _target_name(node.value) in names:
                    names.update(n for t in node.targets if (n := _target_name(t)))
        return [call for call in calls if _target_name(call.func) in names]

    def visit_Call(self, node: cst.Call) -> None:
        """Examine one read of the ambient dtype."""
        if node.args or not isinstance(node.func, cst.Name | cst.Attribute):
            return
        read = self.context.ast_of(node)
        if not isinstance(read, ast.Call) or self.project.qualified(self.module, read.func) != AMBIENT:
            return
        if self._literal_scope(read) or self._behind_config_test(read):
            return
        sink = self._sink(read)
        if sink is None:
            return
        name, place, direct = sink
        self._report(read, name, place, direct)

    def _report(self, read: ast.Call, name: str, place: ast.AST, direct: bool) -> None:
        path, line = self.module.path, read.lineno
        evidence = [Evidence(path, line, "the ambient dtype is read here")]
        if getattr(place, "lineno", line) != line:
            evidence.append(Evidence(path, place.lineno, f"and becomes `{name}` here"))  # type: ignore[attr-defined]
        where, outside = self._scope(read)
        other = self._config_read(read)
        if outside:
            evidence.append(Evidence(path, line, where))
            fix, reason = self._activation(read)
            self.context.report(
                read,
                level="error",
                message=f"{name} is the process's default dtype: {where}, so it is float32",
                evidence=evidence,
                fix=fix,
                unfixed_reason=reason,
            )
        elif other is not None and direct and not self._is_both(read):
            evidence.append(
                Evidence(
                    path, other.lineno, f"the same class takes `{ast.unparse(other)}` for the model dtype"
                )
            )
            self.context.report(
                read,
                level="warning",
                message=f"{name} is the process's default dtype while the class reads "
                "model_config.dtype: outside the model loader they differ",
                evidence=evidence,
                fix=self._config_fix(read, other),
            )
        else:
            self.context.report(
                read,
                level="note",
                message=f"{name} is the process's default dtype, right only inside the model loader",
                evidence=[*evidence, Evidence(path, line, where)],
                unfixed_reason="nothing here says that it is reached outside the model loader",
            )

    def _literal_scope(self, read: ast.Call) -> bool:
        """Whether a ``with set_default_dtype(literal)`` block around the read decides the dtype."""
        for parent in self.module.ancestors(read):
            if isinstance(parent, ast.With | ast.AsyncWith):
                for item in parent.items:
                    call = item.context_expr
                    if isinstance(call, ast.Call) and LITERAL_SCOPE.search(ast.unparse(call.func)):
                        return True
        return False

    def _behind_config_test(self, read: ast.Call) -> bool:
        """Whether the read is the last resort behind a test for, or a read of, the model's config."""
        below: ast.AST = read
        for parent in self.module.ancestors(read):
            if isinstance(parent, ast.IfExp) and below is not parent.test:
                other = parent.body if below is parent.orelse else parent.orelse
                if _speaks_of_config(parent.test) or _speaks_of_config(other):
                    return True
            elif isinstance(parent, ast.BoolOp):
                if any(_speaks_of_config(value) for value in parent.values if value is not below):
                    return True
            elif isinstance(parent, ast.If) and below is not parent.test:
                if _speaks_of_config(parent.test):
                    return True
            elif isinstance(parent, ast.ExceptHandler):
                attempt = self.module.parents.get(parent)
                if isinstance(attempt, ast.Try) and any(_speaks_of_config(s) for s in attempt.body):
                    return True
            elif isinstance(parent, FunctionNode):
                return False
            below = parent
        return False

    def _sink(self, read: ast.Call) -> tuple[str, ast.AST, bool] | None:
        """The output dtype that the read becomes: its name, where, and whether directly so."""
        below: ast.AST = read
        for parent in self.module.ancestors(read):
            if isinstance(parent, ast.IfExp | ast.BoolOp) and below is not getattr(parent, "test", None):
                below = parent
                continue
            if isinstance(parent, ast.keyword):
                matches = parent.arg is not None and OUTPUT_NAME.search(parent.arg)
                return (parent.arg, read, True) if matches and parent.arg else None
            if isinstance(parent, ast.Call) and below in parent.args:
                return self._positional(parent, below)
            if isinstance(parent, ast.arguments):
                named = _default_of(parent, below)
                return (named, read, True) if named and OUTPUT_NAME.search(named) else None
            if isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr):
                targets: list[ast.expr] = (
                    parent.targets if isinstance(parent, ast.Assign) else [parent.target]
                )
                return self._assigned(read, parent, targets)
            if isinstance(parent, ast.Return):
                return self._returned(read)
            return None
        return None

    def _assigned(
        self, read: ast.Call, stmt: ast.AST, targets: list[ast.expr]
    ) -> tuple[str, ast.AST, bool] | None:
        for target in targets:
            name = _target_name(target)
            if name is None:
                continue
            if OUTPUT_NAME.search(name):
                return name, read, True
            for sink, place in self._uses(stmt, target):
                return sink, place, isinstance(target, ast.Name)
        return None

    def _uses(self, stmt: ast.AST, target: ast.expr) -> Iterator[tuple[str, ast.AST]]:
        """Output dtypes that a name bound by ``stmt`` becomes later in its function or class."""
        if isinstance(target, ast.Name):
            scope: ast.AST = self.module.enclosing_function(stmt) or self.module.tree
        else:
            scope = self.module.enclosing_class(stmt) or self.module.tree
        text = ast.unparse(target)
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and node is not stmt:
                names = [n for t in node.targets if (n := _target_name(t)) and OUTPUT_NAME.search(n)]
                if names and _same(node.value, text):
                    yield names[0], node
            elif isinstance(node, ast.keyword) and node.arg and OUTPUT_NAME.search(node.arg):
                if _same(node.value, text):
                    yield node.arg, node.value

    def _returned(self, read: ast.Call) -> tuple[str, ast.AST, bool] | None:
        function = self.module.enclosing_function(read)
        if function is not None and OUTPUT_NAME.search(function.name):
            return function.name, read, True
        return None

    def _positional(self, call: ast.Call, argument: ast.AST) -> tuple[str, ast.AST, bool] | None:
        """The output parameter that a positional argument fills, seen through the import."""
        found = self.project.resolve(self.module, call.func)
        if found is None or not isinstance(found.node, FunctionNode):
            return None
        names = [a.arg for a in (*found.node.args.posonlyargs, *found.node.args.args)]
        index = next((i for i, a in enumerate(call.args) if a is argument), len(names))
        if index < len(names) and OUTPUT_PARAMETER.search(names[index]):
            return names[index], call, False
        return None

    def _scope(self, read: ast.Call) -> tuple[str, bool]:
        """Where the read runs, in words, and whether that is outside the model loader for sure."""
        below: ast.AST = read
        function: FunctionNode | None = None
        for parent in self.module.ancestors(read):
            if isinstance(parent, FunctionNode):
                if below is parent.args:
                    return "a default argument is evaluated on import", True
                function = function or parent
            below = parent
        if function is None:
            return "module and class bodies run on import", True
        decorators = [ast.unparse(d) for d in function.decorator_list]
        if any("register_fake" in d or "impl_abstract" in d for d in decorators):
            return "a fake kernel runs while the model is traced", True
        if function.name in BUILD | BOTH:
            return f"`{function.name}` runs inside the model loader", False
        if RUN.search(function.name):
            return f"`{function.name}` runs after the model is built", True
        return f"`{function.name}` may run inside or outside the model loader", False

    def _is_both(self, read: ast.Call) -> bool:
        function = self.module.enclosing_function(read)
        return function is not None and function.name in BOTH

    def _config_read(self, read: ast.Call) -> ast.Attribute | None:
        """The read of ``model_config.dtype`` in the same class, the same function preferred."""
        function = self.module.enclosing_function(read)
        for scope in (function, self.module.enclosing_class(read)):
            if scope is None:
                continue
            reads = [
                n for n in ast.walk(scope) if isinstance(n, ast.Attribute) and CONFIG_READ.search(_text(n))
            ]
            if reads:
                return min(reads, key=lambda n: (abs(n.lineno - read.lineno), n.lineno))
        return None

    def _config_fix(self, read: ast.Call, other: ast.Attribute) -> Fix:
        """Read the model's config instead: safe where the same call stands in the same function."""
        text = ast.unparse(other)
        edit = Edit(*self.module.byte_range(read), text)
        here = self.module.enclosing_function(read)
        if (
            here is not None
            and self.module.enclosing_function(other) is here
            and self._may_repeat(other, read, here)
        ):
            return Fix("safe", f"read {text}", (edit,))
        text = f"{CONFIG}().model_config.dtype"
        edits = [Edit(*self.module.byte_range(read), text)]
        added = import_edit(self.module, "vllm.config", CONFIG, self.project.line_length(self.module))
        return Fix("unsafe", f"read {text}", (*edits, *([added] if added else [])))

    def _may_repeat(self, other: ast.Attribute, read: ast.Call, function: FunctionNode) -> bool:
        """Whether the config read is reached whenever the ambient read is, with its names bound."""
        statement = next((p for p in self.module.ancestors(other) if isinstance(p, ast.stmt)), None)
        mine = next((p for p in self.module.ancestors(read) if isinstance(p, ast.stmt)), None)
        if statement is None or mine is None:
            return False
        around = self.module.parents[statement]
        if around is not function and around not in set(self.module.ancestors(mine)):
            return False
        root: ast.expr = other
        while isinstance(root, ast.Attribute | ast.Call):
            root = root.value if isinstance(root, ast.Attribute) else root.func
        if not isinstance(root, ast.Name):
            return False
        parameters = {
            a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        }
        local = self.project.imports(self.module).is_local(root.id, other)
        return not local or root.id in parameters or statement.lineno < mine.lineno

    def _activation(self, read: ast.Call) -> tuple[Fix | None, str | None]:
        """For code that runs a layer: the dtype of the activation it is given, if that is plain to see."""
        function = self.module.enclosing_function(read)
        if function is None:
            return None, "no configuration is known on import: pass the dtype in"
        if function.decorator_list and "fake" in " ".join(map(ast.unparse, function.decorator_list)):
            return None, "the real kernel's own default decides what its fake must return"
        if re.match(r"forward|apply", function.name):
            for argument in function.args.args:
                if argument.arg in ("x", "hidden_states") and not _is_stored(function, argument.arg):
                    text = f"{argument.arg}.dtype"
                    return Fix("unsafe", f"use {text}", (Edit(*self.module.byte_range(read), text),)), None
        return None, "which tensor's dtype the output should have cannot be told from here"


def _text(node: ast.AST) -> str:
    return ast.unparse(node)


def _speaks_of_config(node: ast.AST) -> bool:
    return "model_config" in ast.unparse(node)


def _target_name(target: ast.expr) -> str | None:
    if isinstance(target, ast.Name):
        return target.id
    return target.attr if isinstance(target, ast.Attribute) else None


def _same(value: ast.expr, text: str) -> bool:
    """Whether a value is ``text``, or may be through a conditional."""
    if isinstance(value, ast.IfExp):
        return _same(value.body, text) or _same(value.orelse, text)
    if isinstance(value, ast.BoolOp):
        return any(_same(v, text) for v in value.values)
    return ast.unparse(value) == text


def _default_of(arguments: ast.arguments, default: ast.AST) -> str | None:
    """The parameter whose default value is ``default``."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return next((a.arg for a, d in pairs if d is default), None)


def _is_stored(function: FunctionNode, name: str) -> bool:
    return any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(function)
    )


class Command(RuleCommand):
    """``python -m libcst.tool codemod -x codemods.ambient_out_dtype.Command PATH``."""

    DESCRIPTION = "Take output dtypes from the model's configuration instead of torch.get_default_dtype()."
    RULE = "ambient-out-dtype"
