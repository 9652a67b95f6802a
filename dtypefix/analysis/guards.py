"""What a test settles about dtypes on the branch it guards."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from dtypefix.analysis.items import Environment, without_none
from dtypefix.analysis.origins import (
    NONE,
    UNKNOWN_ORIGIN,
    Form,
    Kind,
    Origin,
    Step,
    Value,
    Verb,
    item_origins,
)
from dtypefix.analysis.scopes import last_name


def refine(values: Mapping[ast.AST, Value], test: ast.expr, truth: bool, env: Environment) -> None:
    """Narrow ``env`` to what holds when ``test`` turned out ``truth``.

    ``values`` holds the values of the test's parts. Only what is certain is narrowed: tests of
    ``x.dtype`` against a dtype, of ``None``, ``isinstance(x, Tensor)``, and their combinations.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        refine(values, test.operand, not truth, env)
    elif isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) is truth:
            for part in test.values:
                refine(values, part, truth, env)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        _compare(values, test, truth, env)
    elif isinstance(test, ast.Call):
        if truth and last_name(test.func) in ("isinstance", "is_tensor") and test.args:
            _is_tensor(values, test, env)
    elif truth:
        key = _key(values, test, env)
        if key is not None and (narrowed := without_none(env[key])) is not None:
            env[key] = narrowed


def _key(values: Mapping[ast.AST, Value], expr: ast.expr, env: Environment) -> str | None:
    """The key under which ``env`` holds a name or dotted path."""
    if isinstance(expr, ast.NamedExpr):
        expr = expr.target
    if isinstance(expr, ast.Name):
        return expr.id if expr.id in env else None
    if isinstance(expr, ast.Attribute):
        path = values[expr].path if expr in values else ""
        return path if path in env else None
    return None


def _compare(values: Mapping[ast.AST, Value], test: ast.Compare, truth: bool, env: Environment) -> None:
    op, left, right = test.ops[0], test.left, test.comparators[0]
    if isinstance(right, ast.Constant) and right.value is None:
        if isinstance(op, (ast.Is, ast.Eq)):
            _none(values, left, truth, env)
        elif isinstance(op, (ast.IsNot, ast.NotEq)):
            _none(values, left, not truth, env)
        return
    if isinstance(op, (ast.Eq, ast.Is)):
        equal = truth
    elif isinstance(op, (ast.NotEq, ast.IsNot)):
        equal = not truth
    elif (isinstance(op, ast.In) and truth) or (isinstance(op, ast.NotIn) and not truth):
        equal = True
    else:
        return
    if not equal:
        return
    if not _settle(values, left, right, env):
        _settle(values, right, left, env)


def _none(values: Mapping[ast.AST, Value], expr: ast.expr, is_none: bool, env: Environment) -> None:
    key = _key(values, expr, env)
    if key is None:
        return
    if is_none:
        env[key] = Value(NONE.form, NONE.origins, steps=env[key].steps)
    elif (narrowed := without_none(env[key])) is not None:
        env[key] = narrowed


def _settle(values: Mapping[ast.AST, Value], subject: ast.expr, dtype: ast.expr, env: Environment) -> bool:
    """Give ``subject`` (``x.dtype``, or a name that holds a dtype) the origins of ``dtype``."""
    given = values.get(dtype)
    if given is None:
        return False
    known = item_origins(given)
    if not known or UNKNOWN_ORIGIN in known or given.form not in (Form.DTYPE, Form.TUPLE, Form.LIST):
        return False
    if isinstance(subject, ast.Attribute) and subject.attr == "dtype":
        key = _key(values, subject.value, env)
        form = env[key].form if key is not None else Form.ANY
    else:
        key = _key(values, subject, env)
        form = Form.DTYPE
        if key is not None and env[key].form is not Form.DTYPE:
            return False
    if key is None or not _better(known, env[key].origins):
        return False
    old = env[key]
    step = Step(Verb.TESTED, dtype, old.steps + given.steps)
    env[key] = Value(form, known, (), old.path, old.zero_dim, (step,))
    return True


def _better(new: frozenset[Origin], old: frozenset[Origin]) -> bool:
    """Whether the tested dtype says more than what is known already."""
    literal = {Kind.LITERAL}
    if {o.kind for o in old} == literal and len(old) == 1:
        return False
    return new != old


def _is_tensor(values: Mapping[ast.AST, Value], test: ast.Call, env: Environment) -> None:
    if last_name(test.func) == "isinstance" and (len(test.args) < 2 or last_name(test.args[1]) != "Tensor"):
        return
    key = _key(values, test.args[0], env)
    if key is not None and env[key].form is Form.ANY:
        old = env[key]
        env[key] = Value(Form.TENSOR, old.origins, (), old.path, False, old.steps)
