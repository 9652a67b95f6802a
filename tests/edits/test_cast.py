"""Casting an expression where it stands, in the layout that its line has room for."""

from __future__ import annotations

import ast

import pytest

from dtypefix.analysis.module import Module
from dtypefix.edits.cast import cast_argument, cast_expression

WIDTH = 40


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a[i] = value\n", "a[i] = value.to(a.dtype)\n"),
        ("a[i] = x @ y\n", "a[i] = (x @ y).to(a.dtype)\n"),
        ("if c:\n    a[i] = " + "v" * 14 + "\n", "if c:\n    a[i] = " + "v" * 14 + ".to(a.dtype)\n"),
        (
            "if c:\n    a[i] = " + "v" * 20 + "\n",
            "if c:\n    a[i] = " + "v" * 20 + ".to(\n        a.dtype\n    )\n",
        ),
        (
            "if c:\r\n    a[i] = " + "v" * 20 + "\r\n",
            "if c:\r\n    a[i] = " + "v" * 20 + ".to(\n        a.dtype\n    )\r\n",
        ),
        (
            "if c:\n    a[i] = x @ " + "v" * 15 + "\n",
            "if c:\n    a[i] = (x @ " + "v" * 15 + ").to(\n        a.dtype\n    )\n",
        ),
        # Neither what follows on the line nor what does not fit broken either is torn apart.
        ("a[i] = " + "v" * 24 + "  # why\n", "a[i] = " + "v" * 24 + ".to(a.dtype)  # why\n"),
        ("a[i] = " + "v" * 34 + "\n", "a[i] = " + "v" * 34 + ".to(a.dtype)\n"),
        ("a[i] = f(\n    x,\n)\n", "a[i] = f(\n    x,\n).to(a.dtype)\n"),
    ],
)
def test_a_cast_is_broken_only_where_the_line_would_be_too_long(before: str, after: str) -> None:
    module = Module("case.py", before.encode())
    assign = next(n for n in ast.walk(module.tree) if isinstance(n, ast.Assign))
    text = before
    for edit in reversed(cast_expression(module, assign.value, "a.dtype", WIDTH)):
        text = text[: edit.start_byte] + edit.replacement + text[edit.end_byte :]
    assert text == after
    ast.parse(text)


def test_a_cast_stays_on_its_line_where_no_width_is_given() -> None:
    module = Module("case.py", b"a[i] = " + b"v" * 60 + b"\n")
    assign = module.tree.body[0]
    assert isinstance(assign, ast.Assign)
    (edit,) = cast_expression(module, assign.value, "a.dtype")
    assert edit.replacement == ".to(a.dtype)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a.copy_(0, i, value)\n", "a.copy_(0, i, value.to(a.dtype))\n"),
        (
            "if c:\n    a.index_copy_(0, i, x * y)\n",
            "if c:\n    a.index_copy_(\n        0, i, (x * y).to(a.dtype)\n    )\n",
        ),
        ("a.index_copy_(0, i, some_value)  # why\n", "a.index_copy_(0, i, some_value.to(a.dtype))  # why\n"),
        ("f(a.index_copy_(0, i, a_value))\n", "f(a.index_copy_(0, i, a_value.to(a.dtype)))\n"),
        (
            "a.index_copy_(\n    0, i, some_value_here)\n",
            "a.index_copy_(\n    0, i, some_value_here.to(a.dtype))\n",
        ),
    ],
)
def test_a_call_is_broken_where_a_cast_argument_does_not_fit(before: str, after: str) -> None:
    module = Module("case.py", before.encode())
    call = [n for n in ast.walk(module.tree) if isinstance(n, ast.Call)][-1]
    text = before
    for edit in reversed(cast_argument(module, call, call.args[-1], "a.dtype", WIDTH)):
        text = text[: edit.start_byte] + edit.replacement + text[edit.end_byte :]
    assert text == after
    ast.parse(text)
