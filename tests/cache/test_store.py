"""Results of earlier runs never differ from those of a fresh one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtypefix.api import Execution, InputFile, Options, Roots, scan
from dtypefix.findings import FileResult
from dtypefix.sources.read import read_source

BASE = """\
import torch


class Base(torch.nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.fc = {layer}(hidden_size, hidden_size)
"""
MODEL = """\
import torch
from pkg.base import Base


class Model(Base):
    def combine_hidden_states(self, hidden_states):
        return self.fc(hidden_states)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package = tmp_path / "tree" / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "base.py").write_text(BASE.format(layer="torch.nn.Linear"))
    (package / "model.py").write_text(MODEL)
    return package


def examine(tree: Path, cache: Path | None, jobs: int = 1, select: str = "ALL") -> list[FileResult]:
    files = [InputFile(f"pkg/{path.name}", path) for path in sorted(tree.glob("*.py"))]
    root = tree.parent
    return list(scan(files, Options(select=(select,)), Roots((root,), root), Execution(jobs, cache)))


def index(cache: Path) -> Path:
    (found,) = cache.glob("*.json")
    return found


def test_a_second_run_gives_the_same_and_reads_no_file(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    for path in tree.glob("*.py"):
        os.utime(path, (1, 1))  # a file that was just written is read again
    first = examine(tree, tmp_path / "cache")
    read: list[Path] = []
    for module in ("dtypefix.api", "dtypefix.sources.lookup", "dtypefix.cache.digests"):
        monkeypatch.setattr(f"{module}.read_source", lambda path: read.append(path) or read_source(path))
    assert examine(tree, tmp_path / "cache") == first == examine(tree, None)
    assert {path.name for path in read} == {"__init__.py", "base.py", "model.py"}
    read.clear()
    assert examine(tree, tmp_path / "cache") == first
    assert read == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda tree: (tree / "base.py").write_text(BASE.format(layer="Other")), id="base changed"
        ),
        pytest.param(lambda tree: (tree / "base.py").unlink(), id="base removed"),
        pytest.param(lambda tree: (tree / "model.py").write_text("x = 1\n"), id="the file itself changed"),
        pytest.param(
            lambda tree: (tree / "extra.py").write_text(MODEL.replace("Model", "Extra")), id="a file more"
        ),
    ],
)
@pytest.mark.parametrize("start", ["with base", "without base"])
def test_a_change_anywhere_it_looked_is_noticed(tree: Path, tmp_path: Path, change, start: str) -> None:
    base = (tree / "base.py").read_text()
    if start == "without base":
        (tree / "base.py").unlink()
    examine(tree, tmp_path / "cache")
    (tree / "base.py").write_text(base)
    assert examine(tree, tmp_path / "cache") == examine(tree, None)
    change(tree)
    assert examine(tree, tmp_path / "cache") == examine(tree, None)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[: len(data) // 2], id="cut off"),
        pytest.param(lambda data: data.replace(b"combiner", b"combined"), id="changed"),
        pytest.param(lambda data: b"\xff" + data, id="not text"),
    ],
)
def test_a_damaged_index_counts_as_empty(tree: Path, tmp_path: Path, damage) -> None:
    cache = tmp_path / "cache"
    first = examine(tree, cache)
    whole = index(cache).read_bytes()
    index(cache).write_bytes(damage(whole))
    assert examine(tree, cache) == first


def test_other_rules_do_not_share_results(tree: Path, tmp_path: Path) -> None:
    examine(tree, tmp_path / "cache", select="unguarded-combiner")
    assert examine(tree, tmp_path / "cache") == examine(tree, None)


def test_a_cache_that_cannot_be_written_is_no_error(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert examine(tree, tmp_path / "file" / "cache") == examine(tree, None)


def test_the_folder_stays_bounded(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtypefix.cache.store.INDEXES_KEPT", 2)
    cache = tmp_path / "cache"
    cache.mkdir()
    for number in range(5):
        (cache / f"{number}.json").write_text("old")
    examine(tree, cache)
    assert len(list(cache.iterdir())) == 2
    assert examine(tree, cache) == examine(tree, None)


def test_several_processes_give_the_same_in_the_same_order(tree: Path, tmp_path: Path) -> None:
    for number in range(12):
        (tree / f"model_{number}.py").write_text(MODEL.replace("Model", f"Model{number}"))
    alone = examine(tree, None)
    assert examine(tree, None, jobs=2) == alone
    assert examine(tree, tmp_path / "cache", jobs=2) == alone == examine(tree, tmp_path / "cache")
