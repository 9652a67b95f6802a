"""The check of rewrites on whole releases, and the comparison with upstream, on small trees made up here."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dtypefix.edits.fix_file import FixedFile
from dtypefix.findings import FileResult

FOLDER = Path(__file__).parents[2] / "benchmarks" / "history"
SETTINGS = "[tool.ruff]\nline-length = 110\n"
MERGE = """\
import torch


def merge(inputs_embeds: torch.Tensor, is_image: torch.Tensor, image_embeds: torch.Tensor):
    inputs_embeds[is_image] = {value}
    return inputs_embeds
"""
BEFORE = MERGE.format(value="image_embeds")
OURS = MERGE.format(value="image_embeds.to(inputs_embeds.dtype)")
ROW = {
    "id": "F1",
    "event": "E1",
    "family": "STORE",
    "rule": "uncast-store",
    "project": "vllm",
    "version_before": "1.0",
    "version_after": "2.0",
    "path_before": "vllm/merge.py",
    "path_after": "vllm/merge.py",
    "symbol": "merge",
    "symbol_after": "merge",
    "line": 5,
    "end_line": 5,
    "line_after": 5,
    "evidence": "local",
    "mechanical": "yes",
}


@pytest.fixture(scope="module")
def history() -> dict[str, ModuleType]:
    sys.path.insert(0, str(FOLDER))
    try:
        return {name: importlib.import_module(name) for name in ("rewrites", "upstream")}
    finally:
        sys.path.remove(str(FOLDER))


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for version, text in (("1.0", BEFORE), ("2.0", OURS)):
        package = tmp_path / f"vllm-{version}" / "vllm"
        package.mkdir(parents=True)
        (package.parent / "pyproject.toml").write_text(SETTINGS)
        (package / "__init__.py").write_text("")
        (package / "merge.py").write_text(text)
    return tmp_path


def fixed(after: str, before: str = BEFORE) -> FixedFile:
    path = "vllm/merge.py"
    return FixedFile(path, before.encode(), after.encode(), (), FileResult(path))


def test_a_release_is_rewritten_in_memory_and_checked(history, sources, tmp_path) -> None:
    tree = sources / "vllm-1.0"
    safe, both = history["rewrites"].examined(tree, tmp_path)
    assert (safe["files"], safe["changed"], safe["fixes"]) == (2, 1, {"uncast-store": 1})
    assert safe["problems"] == []
    assert {**both, "mode": "safe"} == safe
    assert (tree / "vllm" / "merge.py").read_text() == BEFORE
    assert "+    inputs_embeds[is_image] = image_embeds.to" in (tmp_path / "vllm-1.0-safe.patch").read_text()


@pytest.mark.parametrize(
    ("after", "kinds"),
    [
        (OURS, []),
        (BEFORE.replace("return", "return ("), ["does not compile"]),
        # The second run would repair the store that this change left.
        (BEFORE.replace("    return", "    # seen\n    return"), ["not idempotent"]),
        (OURS.replace("import torch", "import os\nimport torch"), ["ruff complains"]),
        (OURS.replace(".to(", ".to( "), ["not formatted"]),
    ],
)
def test_what_is_wrong_with_a_changed_file_is_told(history, sources, after, kinds) -> None:
    found = history["rewrites"].problems(sources / "vllm-1.0", [fixed(after)], "safe")
    assert [problem["kind"] for problem in found] == kinds


def test_old_complaints_and_an_old_layout_are_not_held_against_a_fix(history, sources) -> None:
    before, after = (text.replace("import torch", "import os, torch") for text in (BEFORE, OURS))
    assert list(history["rewrites"].problems(sources / "vllm-1.0", [fixed(after, before)], "safe")) == []


def test_mechanical_repairs_of_releases_at_hand_are_compared(history, sources, capsys) -> None:
    rows = [ROW, {**ROW, "id": "F2", "mechanical": "no"}, {**ROW, "id": "F3", "version_after": "3.0"}]
    compared = list(history["rewrites"].compared(rows, sources))
    assert [(row["id"], row["safe"]["verdict"]) for row in compared] == [("F1", "equal")]
    history["rewrites"].show_comparison(compared)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["uncast-store", "1", "1", "1", "0", "0", "100%"] in lines
    assert ["all", "1", "1", "1", "0", "0", "100%"] in lines


@pytest.mark.parametrize(
    ("theirs", "verdict"),
    [
        (OURS, "equal"),
        (OURS.replace("    inputs", "    # why\n    inputs"), "equal"),
        (OURS.replace(".to(inputs_embeds.dtype)", ".to(\n        inputs_embeds.dtype,\n    )"), "equal"),
        (MERGE.format(value="image_embeds.to(dtype=inputs_embeds.dtype)"), "same source"),
        (MERGE.format(value="image_embeds.type_as(inputs_embeds)"), "same source"),
        (
            OURS.replace("    inputs_embeds[", "    dtype = inputs_embeds.dtype\n    inputs_embeds[").replace(
                ".to(inputs_embeds.dtype)", ".to(dtype)"
            ),
            "same source",
        ),
        (MERGE.format(value="image_embeds.to(torch.float32)"), "other"),
        (MERGE.format(value="image_embeds.float()"), "other"),
        (BEFORE, "other"),
        (OURS.replace("def merge", "\n" * 30 + "def other"), "other"),
    ],
)
def test_a_rewrite_is_compared_with_what_upstream_wrote_there(history, theirs, verdict) -> None:
    found = history["upstream"].compare(ROW, BEFORE.encode(), OURS.encode(), theirs.encode())
    assert found.verdict == verdict


def test_a_change_elsewhere_in_the_file_does_not_touch_the_place(history) -> None:
    tail = "\n\ndef late(a, b):\n    return a\n"
    ours = BEFORE + tail.replace("return a", "return a.to(b.dtype)")
    assert (
        history["upstream"].compare(ROW, (BEFORE + tail).encode(), ours.encode(), OURS.encode()).verdict
        == "untouched"
    )


def test_two_changes_side_by_side_are_two_places(history) -> None:
    source = "".join(f"{name} = cast({name}, {{}})\n" for name in "abcdefghij")
    old, new, theirs = (
        source.format(*values) for values in ("x" * 10, "x" * 4 + "yy" + "xyxx", "x" * 4 + "yy" + "x" * 4)
    )
    row = {**ROW, "line": 5, "end_line": 5, "symbol": "", "symbol_after": ""}
    found = history["upstream"].compare(row, old.encode(), new.encode(), theirs.encode())
    assert (found.verdict, found.ours) == ("equal", ["e = cast(e, y)", "f = cast(f, y)"])


def test_a_symbol_reaches_from_its_def_to_its_last_line(history) -> None:
    source = b"class A:\n    def f(self):\n        pass\n\n\nclass B:\n    def f(self):\n        return 1\n"
    extent = history["upstream"].extent
    assert extent(source, "B.f") == (7, 8)
    assert extent(source, "B") == (6, 8)
    assert extent(source, "B.g") == (0, -1)
