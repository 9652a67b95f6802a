from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dtypefix.errors import UserError
from dtypefix.validate.overlay import KEPT, build, check_tree, tree_version

from .trees import VERSION, tree


def test_only_the_trees_python_and_the_runtimes_extensions_can_be_imported(tmp_path: Path) -> None:
    checkout = tree(tmp_path / "checkout", {"vllm/kept.py": "", "vllm/_C.abi3.so": "stale"})
    installed = tree(tmp_path / "site", {"vllm/deleted_by_the_patch.py": "", "vllm/_C.abi3.so": "compiled"})
    (installed / "vllm" / "flash").mkdir()
    (installed / "vllm" / "flash" / "_fa.abi3.so").write_text("compiled too")
    overlay = build(checkout, installed / "vllm", tmp_path / "cache")
    assert (overlay.root / "vllm" / "kept.py").is_file()
    assert not (overlay.root / "vllm" / "deleted_by_the_patch.py").exists()
    assert (overlay.root / "vllm" / "_C.abi3.so").read_text() == "compiled"
    assert (overlay.root / "vllm" / "flash" / "_fa.abi3.so").read_text() == "compiled too"


def test_without_a_compiled_runtime_there_is_no_extension(tmp_path: Path) -> None:
    overlay = build(tree(tmp_path / "checkout", {"vllm/_C.abi3.so": "stale"}), None, tmp_path / "cache")
    assert not list(overlay.root.rglob("*.so"))


def test_the_distribution_named_vllm_says_cpu(tmp_path: Path) -> None:
    overlay = build(tree(tmp_path / "checkout"), None, tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, "-c", "import importlib.metadata as m; print(m.version('vllm'))"],
        env={**os.environ, "PYTHONPATH": str(overlay.root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "0.31.2+cpu"


def test_equal_trees_share_a_layout_and_changed_ones_do_not(tmp_path: Path) -> None:
    one = build(tree(tmp_path / "one", {"vllm/a.py": "x = 1\n"}), None, tmp_path / "cache")
    two = build(tree(tmp_path / "two", {"vllm/a.py": "x = 1\n"}), None, tmp_path / "cache")
    other = build(tree(tmp_path / "other", {"vllm/a.py": "x = 2\n"}), None, tmp_path / "cache")
    assert one.root == two.root
    assert other.root != one.root
    assert other.cache != one.cache
    assert (other.root / "vllm" / "a.py").read_text() == "x = 2\n"


def test_a_tree_with_and_without_a_device_are_two(tmp_path: Path) -> None:
    checkout = tree(tmp_path / "checkout")
    assert (
        build(checkout, None, tmp_path / "cache").root
        != build(checkout, None, tmp_path / "cache", local="").root
    )


def test_the_tree_is_left_as_it_was(tmp_path: Path) -> None:
    checkout = tree(tmp_path / "checkout", {"vllm/a.py": "x = 1\n"})
    (checkout / "vllm" / "_version.py").unlink()
    before = sorted(checkout.rglob("*"))
    overlay = build(checkout, None, tmp_path / "cache")
    assert sorted(checkout.rglob("*")) == before
    assert (overlay.root / "vllm" / "_version.py").is_file()


def test_old_layouts_are_cleared_away(tmp_path: Path) -> None:
    for number in range(KEPT + 2):
        last = build(
            tree(tmp_path / f"t{number}", {"vllm/a.py": f"x = {number}\n"}), None, tmp_path / "cache"
        )
    left = [entry for entry in (tmp_path / "cache").iterdir() if not entry.name.endswith(".cache")]
    assert len(left) == KEPT
    assert last.root in left


def test_the_version_comes_from_the_tree_or_its_folders_name(tmp_path: Path) -> None:
    assert tree_version(tree(tmp_path / "checkout")) == "0.31.2"
    bare = tree(tmp_path / "vllm-0.20.2-patched")
    (bare / "vllm" / "_version.py").unlink()
    assert tree_version(bare).startswith("0.20.2")
    assert VERSION.count("0.31.2") == 1


def test_the_package_itself_may_be_named(tmp_path: Path) -> None:
    checkout = tree(tmp_path / "checkout")
    assert check_tree(checkout / "vllm") == checkout.resolve()


def test_a_folder_without_vllm_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no vllm/__init__"):
        check_tree(tmp_path)
