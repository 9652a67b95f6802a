"""Which assignments reach a place."""

from __future__ import annotations

import ast

import pytest

from dtypefix.analysis.module import Module
from dtypefix.analysis.reaching import bindings, parameter_default, path_through_alias


def reaching(source: str) -> list[str]:
    """The values that ``x`` can have where the function calls ``use(x)``."""
    module = Module("case.py", source.encode())
    (call,) = [n for n in ast.walk(module.tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "use"]
    found = bindings(module, "x", call.args[0])
    return [ast.unparse(b.value) + ("" if b.index is None else f"[{b.index}]") for b in found]


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("x = 1\n    use(x)", ["1"]),
        ("x = 1\n    x = 2\n    use(x)", ["2"]),
        ("x = 1\n    if a:\n        x = 2\n    use(x)", ["2", "1"]),
        ("if a:\n        x = 1\n    else:\n        x = 2\n    use(x)", ["2", "1"]),
        ("if a:\n        x = 1\n        use(x)\n    else:\n        x = 2", ["1"]),
        ("x = 0\n    if a:\n        x = 1\n    else:\n        use(x)", ["0"]),
        ("x, y = f()\n    use(x)", ["f()[0]"]),
        ("y, x = 1, 2\n    use(x)", ["2"]),
        ("if (x := f()):\n        use(x)", ["f()"]),
        ("use(x)\n    x = 1", []),
        ("x = use(x)", []),
        ("def g():\n        x = 1\n    use(x)", []),
        ("y = 1\n    use(x)", []),
    ],
)
def test_the_nearest_assignments_come_first(body: str, values: list[str]) -> None:
    assert reaching(f"def f(a, x=None):\n    {body}\n") == values


def test_nothing_is_bound_at_module_level() -> None:
    assert reaching("x = 1\nuse(x)\n") == []


@pytest.mark.parametrize(
    ("expression", "path"),
    [
        ("self", ()),
        ("self.a.b", ("a", "b")),
        ("alias.b", ("a", "b")),
        ("twice.b", None),
        ("other.b", None),
        ("built.b", None),
        ("f().b", None),
    ],
)
def test_a_path_is_followed_through_one_name(expression: str, path: tuple[str, ...] | None) -> None:
    source = (
        "def f(self, other):\n    alias = self.a\n    built = self.make()\n    twice = self.a\n"
        f"    if other:\n        twice = self.b\n    use({expression})\n"
    )
    module = Module("case.py", source.encode())
    (call,) = [n for n in ast.walk(module.tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "use"]
    assert path_through_alias(module, call.args[0]) == path


def test_the_default_of_a_parameter() -> None:
    (function,) = ast.parse("def f(a, b=1, *, c, d=2): ...\n").body
    assert isinstance(function, ast.FunctionDef)
    found = {name: parameter_default(function, name) for name in "abcde"}
    texts = {name: ast.unparse(value) if value is not None else None for name, value in found.items()}
    assert texts == {"a": None, "b": "1", "c": None, "d": "2", "e": None}
