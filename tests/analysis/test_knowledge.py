"""The pack's tables: what is merged, what is refused, and that every row names its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtypefix.analysis.knowledge import Knowledge
from dtypefix.analysis.origins import Kind
from dtypefix.errors import UserError


def test_without_a_pack_nothing_is_known() -> None:
    nothing = Knowledge()
    assert nothing.ops == {}
    assert nothing.build_names == frozenset()
    assert nothing.table("anything") == []


def test_later_tables_add_rows_and_replace_rows_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "ops.toml").write_text(
        '[[op]]\nname = "a"\nreturns = "float32"\n[[op]]\nname = "b"\nreturns = ["int8", "float32"]\n'
        '[scopes]\nbuild = ["make"]\n'
    )
    extra = {"op": [{"name": "a", "returns": "arg:0"}], "scopes": {"build": ["construct"]}}
    merged = Knowledge.load(tmp_path, [extra])
    assert merged.ops["a"].returns == "arg:0"
    assert merged.ops["b"].returns == ("int8", "float32")
    assert merged.build_names == {"make", "construct"}


def test_a_broken_table_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "ops.toml").write_text("[[op]\n")
    with pytest.raises(UserError, match=r"ops\.toml: not valid TOML") as caught:
        Knowledge.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_an_unknown_source_is_refused() -> None:
    table = {"path": [{"suffix": "x.dtype", "source": "moon"}]}
    with pytest.raises(UserError, match="unknown dtype source 'moon'"):
        _ = Knowledge([table]).paths


def test_paths_can_be_limited_to_owners() -> None:
    row = {"suffix": "torch_dtype", "source": "checkpoint", "of": ["config"]}
    paths = Knowledge([{"path": [row]}]).paths
    assert set(paths) == {"config.torch_dtype"}
    assert paths["config.torch_dtype"].kind is Kind.CHECKPOINT


@pytest.mark.parametrize("name", ["op", "layer", "path", "call", "name"])
def test_every_row_of_the_pack_cites_its_source(knowledge: Knowledge, name: str) -> None:
    rows = knowledge.table(name)
    assert rows
    assert [row for row in rows if not row.get("cite")] == []
    keys = [(row.get("name"), row.get("suffix"), tuple(row.get("of", ()))) for row in rows]
    assert len(keys) == len(set(keys))
