"""Runs the statements of one scope over abstract values: branches, loops, guards, rebinding."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dtypefix.analysis.expressions import Expressions
from dtypefix.analysis.guards import refine
from dtypefix.analysis.items import Environment, element, item_of
from dtypefix.analysis.making import dtype_origins
from dtypefix.analysis.mixing import UNKNOWN_ORIGINS
from dtypefix.analysis.module import FunctionNode
from dtypefix.analysis.origins import UNKNOWN, Form, Kind, Origin, Step, Value, Verb, item_origins, join
from dtypefix.analysis.scopes import last_name
from dtypefix.analysis.walking import walk

_MAX_PASSES = 4


@dataclass(frozen=True, slots=True)
class Binding:
    """One binding of a local name: ``value`` is what it is bound to, ``before`` what it was."""

    name: str
    target: ast.AST
    value: Value
    before: Value | None

    @property
    def line(self) -> int:
        """The line of the binding."""
        return int(getattr(self.target, "lineno", 0))


def merge(a: Environment | None, b: Environment | None) -> Environment | None:
    """The environment where two paths meet; None stands for a path that is not taken."""
    if a is None or b is None:
        return b if a is None else a
    result = dict(a)
    for key, value in b.items():
        known = result.get(key)
        if known is None:
            result[key] = value
        elif known is not value:
            result[key] = join(known, value)
    return result


class Statements(Expressions):
    """The statement half of a flow."""

    returned: dict[ast.Return, Value]
    bound: dict[ast.AST, Binding]

    def _prepare(self) -> None:
        self.returned = {}
        self.bound = {}
        self.functions: dict[str, FunctionNode] = {}
        self._loops: list[tuple[list[Environment], list[Environment]]] = []

    def run(self, body: Sequence[ast.stmt], env: Environment | None) -> Environment | None:
        """The environment after ``body``, or None when its end is never reached."""
        for statement in body:
            if env is None:
                return None
            handler = getattr(self, f"_do_{type(statement).__name__}", None)
            if handler is not None:
                env = handler(statement, env)
        return env

    def bind(self, target: ast.expr, value: Value, env: Environment) -> None:
        """Bind a name, attribute, item or tuple of targets."""
        if isinstance(target, ast.Name):
            self._bind_name(target, target.id, value, env)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.values[target] = value
            self._unpack(target.elts, value, env)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, Value(Form.LIST, item_origins(value), (item_of(value),)), env)
        elif isinstance(target, ast.Attribute):
            base = self.eval(target.value, env)
            held = base.path or (target.value.id if isinstance(target.value, ast.Name) else "")
            if held and not held.startswith("@"):
                self._bind_name(target, f"{held}.{target.attr}", value, env)
        elif isinstance(target, ast.Subscript):
            stored = self.eval(target, env)
            index = target.slice
            if isinstance(index, ast.Constant) and isinstance(index.value, str):
                base = self.values[target.value]
                held = base.path or (target.value.id if isinstance(target.value, ast.Name) else "")
                if held:
                    self._bind_name(target, f"{held}['{index.value}']", value, env)
            self.values[target] = stored

    def _bind_name(self, target: ast.expr, name: str, value: Value, env: Environment) -> None:
        if isinstance(target, ast.Name):
            if self.dotted_keys:
                for key in [k for k in env if k.startswith((f"{name}.", f"{name}["))]:
                    del env[key]
        else:
            self.dotted_keys = True
        step = Step(Verb.BOUND, target, value.steps, name)
        value = Value(value.form, value.origins, value.elements, value.path, value.zero_dim, (step,))
        self.bound[target] = Binding(name, target, value, env.get(name))
        self.values[target] = env[name] = value

    def _unpack(self, targets: list[ast.expr], value: Value, env: Environment) -> None:
        starred = any(isinstance(t, ast.Starred) for t in targets)
        if value.form is Form.TUPLE and len(value.elements) == len(targets) and not starred:
            for target, one in zip(targets, value.elements, strict=True):
                self.bind(target, one, env)
            return
        for position, target in enumerate(targets):
            if value.form is Form.ANY and value.kinds == {Kind.OUTPUT} and not starred:
                one = element(value, position)
            elif value.form is Form.ANY:
                origins = frozenset(
                    Origin(Kind.ITEM, f"{o.detail}[{position}]", (), o.at) if o.foreign else o
                    for o in value.origins
                )
                path = f"{value.path}[{position}]" if value.path else ""
                one = Value(Form.ANY, origins, (), path, False, value.steps)
            else:
                one = item_of(value)
            self.bind(target, one, env)

    def refine(self, test: ast.expr, truth: bool, env: Environment) -> None:
        """Note in ``env`` what a test settles."""
        refine(self.values, test, truth, env)

    # ---- simple statements

    def _do_Expr(self, node: ast.Expr, env: Environment) -> Environment:
        value = node.value
        if isinstance(value, ast.Constant):
            return env
        self.eval(value, env)
        if isinstance(value, ast.Call) and value.args:
            if last_name(value.func) in self.around.knowledge.default_dtype_setters:
                self.default_override = dtype_origins(self.values[value.args[0]])
        return env

    def _do_Assign(self, node: ast.Assign, env: Environment) -> Environment:
        value = self.eval(node.value, env)
        for target in node.targets:
            self.bind(target, value, env)
        return env

    def _do_AnnAssign(self, node: ast.AnnAssign, env: Environment) -> Environment:
        if node.value is not None:
            value = self.eval(node.value, env)
            if value.form is Form.ANY and value.unknown and isinstance(node.target, ast.Name):
                hint = self.around.parameter(ast.arg(node.target.id, node.annotation)).form
                if hint in (Form.TENSOR, Form.DTYPE):
                    value = Value(hint, UNKNOWN_ORIGINS, steps=value.steps)
            self.bind(node.target, value, env)
        return env

    def _do_AugAssign(self, node: ast.AugAssign, env: Environment) -> Environment:
        target = node.target
        if isinstance(target, ast.Name):
            left = self.name(ast.Name(target.id, ast.Load()), env)
        else:
            left = self.eval(target, env)
        right = self.eval(node.value, env)
        result = self.arithmetic(node, node.op, left, right)
        if left.form is Form.TENSOR:
            # In place: the tensor keeps its dtype whatever is added to it.
            result = left
        if isinstance(target, ast.Subscript):
            self.values[target] = left
        else:
            self.bind(target, result, env)
        return env

    def _do_Return(self, node: ast.Return, env: Environment) -> None:
        value = self.eval(node.value, env) if node.value is not None else Value(Form.NONE)
        self.returned[node] = value

    def _do_Raise(self, node: ast.Raise, env: Environment) -> None:
        if node.exc is not None:
            self.eval(node.exc, env)

    def _do_Assert(self, node: ast.Assert, env: Environment) -> Environment:
        self.eval(node.test, env)
        self.refine(node.test, True, env)
        return env

    def _do_Delete(self, node: ast.Delete, env: Environment) -> Environment:
        for target in node.targets:
            if isinstance(target, ast.Name):
                env.pop(target.id, None)
        return env

    def _do_Import(self, node: ast.Import, env: Environment) -> Environment:
        for alias in node.names:
            if alias.asname:
                env[alias.asname] = Value(Form.OTHER, path=f"@{alias.name}")
            else:
                top = alias.name.partition(".")[0]
                env[top] = Value(Form.OTHER, path=f"@{top}")
        return env

    def _do_ImportFrom(self, node: ast.ImportFrom, env: Environment) -> Environment:
        origin = node.module or ""
        if node.level:
            parts = self.around.module.name.split(".")
            up = node.level - (1 if self.around.module.is_package else 0)
            base = ".".join(parts[: len(parts) - up]) if up < len(parts) else ""
            origin = f"{base}.{origin}" if origin else base
        for alias in node.names:
            env[alias.asname or alias.name] = self.around.dotted(f"{origin}.{alias.name}", node)
        return env

    def _do_FunctionDef(self, node: FunctionNode, env: Environment) -> Environment:
        self.functions[node.name] = node
        for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
            self.eval(default, env)
        for decorator in node.decorator_list:
            self.eval(decorator, env)
        env[node.name] = Value(Form.OTHER, path=f"@.{node.name}")
        return env

    _do_AsyncFunctionDef = _do_FunctionDef

    def _do_ClassDef(self, node: ast.ClassDef, env: Environment) -> Environment:
        functions = self.functions
        self.functions = {}
        self.run(node.body, dict(env))
        self.functions = functions
        env[node.name] = Value(Form.OTHER, path=f"@.{node.name}")
        return env

    # ---- control flow

    def _do_If(self, node: ast.If, env: Environment) -> Environment | None:
        self.eval(node.test, env)
        then, otherwise = dict(env), dict(env)
        self.refine(node.test, False, otherwise)
        self.refine(node.test, True, then)
        narrowed = [
            (key, then[key], otherwise[key])
            for key, value in env.items()
            if then[key] is not value or otherwise[key] is not value
        ]
        then_end, else_end = self.run(node.body, then), self.run(node.orelse, otherwise)
        result = merge(then_end, else_end)
        if result is not None and then_end is not None and else_end is not None:
            # A name that neither branch binds anew is after the branch what it was before.
            for key, one, other in narrowed:
                if then_end.get(key) is one and else_end.get(key) is other:
                    result[key] = env[key]
        return result

    def _do_With(self, node: ast.With | ast.AsyncWith, env: Environment) -> Environment | None:
        saved = self.default_override
        for item in node.items:
            value = self.eval(item.context_expr, env)
            call = item.context_expr
            if isinstance(call, ast.Call) and call.args:
                if last_name(call.func) in self.around.knowledge.default_dtype_managers:
                    self.default_override = dtype_origins(self.values[call.args[0]])
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value, env)
        result = self.run(node.body, env)
        self.default_override = saved
        return result

    _do_AsyncWith = _do_With

    def _do_Try(self, node: ast.Try, env: Environment) -> Environment | None:
        start = dict(env)
        after = self.run(node.body, env)
        failed = merge(start, after) or start
        result = self.run(node.orelse, after)
        for handler in node.handlers:
            inner = dict(failed)
            if handler.name:
                inner[handler.name] = Value(Form.OTHER)
            result = merge(result, self.run(handler.body, inner))
        if not node.finalbody:
            return result
        if result is None:
            self.run(node.finalbody, dict(failed))
            return None
        return self.run(node.finalbody, result)

    _do_TryStar = _do_Try

    def _do_Match(self, node: ast.Match, env: Environment) -> Environment | None:
        self.eval(node.subject, env)
        result: Environment | None = dict(env)
        for case in node.cases:
            inner = dict(env)
            for part in walk(case.pattern):
                captured = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(captured, str):
                    inner[captured] = UNKNOWN
            if case.guard is not None:
                self.eval(case.guard, inner)
            result = merge(result, self.run(case.body, inner))
        return result

    def _do_For(self, node: ast.For | ast.AsyncFor, env: Environment) -> Environment | None:
        item = item_of(self.eval(node.iter, env))

        def enter(inner: Environment) -> None:
            self.bind(node.target, item, inner)

        return self._loop(node, env, enter, None)

    _do_AsyncFor = _do_For

    def _do_While(self, node: ast.While, env: Environment) -> Environment | None:
        def enter(inner: Environment) -> None:
            self.eval(node.test, inner)
            self.refine(node.test, True, inner)

        return self._loop(node, env, enter, node.test)

    def _loop(
        self,
        node: ast.For | ast.AsyncFor | ast.While,
        env: Environment,
        enter: Callable[[Environment], None],
        test: ast.expr | None,
    ) -> Environment | None:
        state = env
        left: list[Environment] = []
        for attempt in range(_MAX_PASSES + 1):
            left = []
            again: list[Environment] = []
            self._loops.append((left, again))
            inner = dict(state)
            enter(inner)
            end = self.run(node.body, inner)
            self._loops.pop()
            for other in again:
                end = merge(end, other)
            if end is None:
                break
            after = merge(state, end) or state
            changed = [key for key, value in after.items() if key in state and value != state[key]]
            if not changed:
                state = after
                break
            if attempt == _MAX_PASSES - 1:
                for key in changed:
                    after[key] = Value(after[key].form, UNKNOWN_ORIGINS, steps=after[key].steps)
            state = after
        exit_: Environment | None = dict(state)
        if test is not None:
            if isinstance(test, ast.Constant) and test.value:
                exit_ = None
            elif exit_ is not None:
                self.refine(test, False, exit_)
        if node.orelse:
            exit_ = self.run(node.orelse, exit_)
        for other in left:
            exit_ = merge(exit_, other)
        return exit_

    def _do_Break(self, node: ast.Break, env: Environment) -> None:
        if self._loops:
            self._loops[-1][0].append(env)

    def _do_Continue(self, node: ast.Continue, env: Environment) -> None:
        if self._loops:
            self._loops[-1][1].append(env)
