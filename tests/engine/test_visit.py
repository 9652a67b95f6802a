"""The places that one pass finds are those of LibCST's own metadata."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

import dtypefix
from dtypefix.engine.visit import Trace

SOURCES = sorted((Path(dtypefix.__file__).parent / "engine").glob("*.py"))
ODD = (
    "@d\nasync def f(a, /, b: int = (1), *c, d=2, **e) -> (x):  # why\n\tawait  g( (a) ), [ *b ], {**c}\n\n",
    "if (a := (b)) : pass\nelif not  a: pass\nelse :\n  x [ 1 : 2 , ... ]\n",
    'f"{ a !r:>{w}} {b=}"; match x:\n  case [A(b=1), *_] if (c): pass\n'.replace("; ", "\n"),
    "with (a as b, c): \\\n  pass\n\x0c\nlambda *, a: (yield)\ntry: pass\nexcept* E as e: raise  X  from  Y",
)


@pytest.mark.parametrize("text", [*ODD, *(path.read_text() for path in SOURCES)])
def test_places_are_those_of_the_position_provider(text: str) -> None:
    tree = cst.parse_module(text)
    wrapper = MetadataWrapper(tree, unsafe_skip_copy=True)
    expected = wrapper.resolve(PositionProvider)
    trace = Trace(tree, {}, {})
    starts = [0]
    for line in text.splitlines(keepends=True) if "\x0c" not in text else text.split("\n"):
        starts.append(starts[-1] + len(line) + ("\x0c" in text))
    for node, place in expected.items():
        start = starts[place.start.line - 1] + place.start.column
        end = starts[place.end.line - 1] + place.end.column
        if not isinstance(node, cst.Module):
            assert trace.place(node) == (start, end), type(node)
