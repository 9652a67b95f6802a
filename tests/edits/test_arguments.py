"""Adding a keyword argument and taking one away, in the layouts that calls come in."""

from __future__ import annotations

import ast

import pytest

from dtypefix.analysis.module import Module
from dtypefix.edits.arguments import drop_argument, keyword_edit
from dtypefix.findings import Edit


def call_in(source: str) -> tuple[Module, ast.Call]:
    module = Module("case.py", source.encode())
    return module, next(n for n in ast.walk(module.tree) if isinstance(n, ast.Call))


def applied(module: Module, edit: Edit) -> str:
    before, after = module.source[: edit.start_byte], module.source[edit.end_byte :]
    return (before + edit.replacement.encode() + after).decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a)\n", "f(a, k=v)\n"),
        ("f(a, b=1)\n", "f(a, b=1, k=v)\n"),
        ("f(a, )\n", "f(a, k=v, )\n"),
        ("f((a))\n", "f((a), k=v)\n"),
        ("f((a), **rest)\n", "f((a), **rest, k=v)\n"),
        ("f('é', (b))\n", "f('é', (b), k=v)\n"),
        ("f(\n    a,\n    b=1,\n)\n", "f(\n    a,\n    b=1,\n    k=v,\n)\n"),
        ("f(\n    a,  # why\n)\n", "f(\n    a,  # why\n    k=v,\n)\n"),
        ("f(\n    a,\n    b=1\n)\n", "f(\n    a,\n    b=1,\n    k=v\n)\n"),
        ("f(\n    a, b=1)\n", "f(\n    a, b=1, k=v)\n"),
        ("f(\n    a, b=1\n)\n", "f(\n    a, b=1, k=v\n)\n"),
        ("f(\n    a, b=g(\n        1,\n    ),\n)\n", "f(\n    a, b=g(\n        1,\n    ),\n    k=v,\n)\n"),
    ],
)
def test_a_keyword_is_appended_in_the_calls_own_layout(before: str, after: str) -> None:
    module, call = call_in(before)
    result = applied(module, keyword_edit(module, call, "k", "v"))
    assert result == after
    (statement,) = ast.parse(result).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert statement.value.keywords[-1].arg == "k"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = name(first, 2)\n", "x = name(\n    first, 2, k=v\n)\n"),
        ("if c:\n    return name(é, )\n", "if c:\n    return name(\n        é, k=v\n    )\n"),
        ("xx = f(one,\n       b)\n", "xx = f(one,\n       b, k=v)\n"),
        ("name(\n    first, b=123\n)\n", "name(\n    first, b=123,\n    k=v\n)\n"),
        # What does not fit broken either, or is not alone on its line, stays together.
        ("x = name(first, second, 3)\n", "x = name(first, second, 3, k=v)\n"),
        ("x = name(first, 2)  # why\n", "x = name(first, 2, k=v)  # why\n"),
        ("x = g(name(first, 2))\n", "x = g(name(first, 2, k=v))\n"),
    ],
)
def test_a_keyword_that_makes_the_line_too_long_breaks_it(before: str, after: str) -> None:
    module = Module("case.py", before.encode())
    calls = [n for n in ast.walk(module.tree) if isinstance(n, ast.Call)]
    result = applied(module, keyword_edit(module, calls[-1], "k", "v", 20))
    assert result == after
    ast.parse(result)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a, k=v)\n", "f(a)\n"),
        ("f(k=v)\n", "f()\n"),
        ("f(k=v, b=1)\n", "f(b=1)\n"),
        ("f(a, k=v, b=1)\n", "f(a, b=1)\n"),
        ("f(\n    a,\n    k=v,\n    b=1,\n)\n", "f(\n    a,\n    b=1,\n)\n"),
        ("f(\n    a,\n    k=v,\n)\n", "f(\n    a,\n)\n"),
        ("f(\n    a,\n    k=v\n)\n", "f(\n    a\n)\n"),
        ("f(\n    a,\n    k=v\n    if w\n    else x,\n    b=1,\n)\n", "f(\n    a,\n    b=1,\n)\n"),
        ("f(\n    a, k=v,\n    b=1,\n)\n", "f(\n    a, \n    b=1,\n)\n"),
    ],
)
def test_a_keyword_is_dropped_with_its_comma_and_its_own_line(before: str, after: str) -> None:
    module, call = call_in(before)
    keyword = next(k for k in call.keywords if k.arg == "k")
    assert applied(module, drop_argument(module, call, keyword)) == after


def test_a_comment_on_the_dropped_line_is_kept() -> None:
    module, call = call_in("f(\n    a,\n    k=v,  # why\n    b=1,\n)\n")
    result = applied(module, drop_argument(module, call, call.keywords[0]))
    assert "# why" in result
    assert [k.arg for k in call_in(result)[1].keywords] == ["b"]
