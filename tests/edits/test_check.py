from __future__ import annotations

import pytest

from dtypefix.edits import compose
from dtypefix.edits.check import problem_with
from dtypefix.findings import Edit

SOURCE = b"def f(a, b):\n    x = a + b\n    return x\n\n\ndef g():\n    return 1\n"


def edit(old: bytes, new: str, source: bytes = SOURCE) -> list[Edit]:
    start = source.index(old)
    return [Edit(start, start + len(old), new)]


def problem(edits: list[Edit], source: bytes = SOURCE) -> str | None:
    return problem_with("f.py", source, compose.apply(source, edits), edits)


@pytest.mark.parametrize(
    "edits",
    [
        edit(b"a + b", "a - b"),
        edit(b"a + b", "(a + b).to(a.dtype)"),
        [Edit(21 + 1, 21 + 1, ".to(b.dtype)")],
        [Edit(13, 13, "    a = a.to(b.dtype)\n")],
        edit(b"    x = a + b\n", ""),
        [Edit(0, 0, "import torch\n")],
        [Edit(len(SOURCE), len(SOURCE), "y = 2\n")],
    ],
)
def test_an_edit_that_stays_inside_its_span_passes(edits: list[Edit]) -> None:
    assert problem(edits) is None


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param(edit(b"a + b", "(a + b"), id="open parenthesis"),
        pytest.param(edit(b"x = a + b", "x = '''"), id="opens a string"),
        pytest.param([Edit(13, 17, "  ")], id="breaks the indentation"),
        pytest.param([Edit(12, 13, " ")], id="joins lines"),
    ],
)
def test_an_edit_that_changes_its_surroundings_is_refused(edits: list[Edit]) -> None:
    assert problem(edits) is not None


def test_an_operator_that_binds_tighter_than_the_edit_is_noticed() -> None:
    source = b"x = a * b\n"
    edits = edit(b"a", "c + a", source)
    assert problem(edits, source) is not None


def test_a_call_wrapped_around_an_untouched_tail_is_noticed() -> None:
    source = b"x = a\ny = b\n"
    edits = [Edit(4, 5, "f(a"), Edit(10, 11, "b)")]
    assert problem(edits, source) is not None
