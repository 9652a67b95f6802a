from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dtypefix.errors import UserError
from dtypefix.validate import static
from dtypefix.validate.choosing import choose_places
from dtypefix.validate.places import parse_place
from dtypefix.validate.trees import Trees, diff, find_trees

from .trees import tree

COMBINER = """\
from torch import nn
from vllm.linear import ReplicatedLinear


class Inner(nn.Module):
    def __init__(self, quant_config):
        super().__init__()
        self.fc = ReplicatedLinear(8, 4, quant_config=quant_config)


class Drafter(nn.Module):
    def __init__(self, quant_config):
        super().__init__()
        self.model = Inner(quant_config)

    def combine_hidden_states(self, hidden_states):
        return self.model.fc(hidden_states)
"""
CAST = "        hidden_states = hidden_states.to(self.model.fc.params_dtype)\n"
LINEAR = """\
class ReplicatedLinear:
    def __init__(self, a, b, quant_config=None, params_dtype=None):
        self.params_dtype = params_dtype
"""
FILES = {"vllm/head.py": COMBINER, "vllm/linear.py": LINEAR}
FIXED = COMBINER.replace("        return self.model.fc", CAST + "        return self.model.fc")


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    base = tree(tmp_path / "base", FILES)
    patched = tree(tmp_path / "patched", {**FILES, "vllm/head.py": FIXED})
    return find_trees(patched, str(base), tmp_path / "scratch")


def test_the_changed_files_and_the_change(trees: Trees) -> None:
    assert trees.changed == ("vllm/head.py",)
    assert "+" + CAST in diff(trees)


def test_the_places_are_the_findings_that_are_gone(trees: Trees) -> None:
    (place,) = choose_places(trees, [])
    assert (place.path, place.rule, place.symbol) == (
        "vllm/head.py",
        "unguarded-combiner",
        "Drafter.combine_hidden_states",
    )
    assert COMBINER.splitlines()[place.line - 1].strip() == "return self.model.fc(hidden_states)"
    assert place.class_name == "Drafter"


def test_a_patch_that_touches_the_file_and_fixes_nothing_leaves_its_findings(tmp_path: Path) -> None:
    base = tree(tmp_path / "base", FILES)
    patched = tree(tmp_path / "patched", {**FILES, "vllm/head.py": "# touched\n" + COMBINER})
    found = find_trees(patched, str(base), tmp_path / "scratch")
    with pytest.raises(UserError, match="nothing to prove"):
        choose_places(found, [])
    assert [place.line for place in choose_places(found, [], remaining=True)] == [17]


def test_an_empty_patch_has_nothing_to_prove(tmp_path: Path) -> None:
    base, patched = tree(tmp_path / "base", FILES), tree(tmp_path / "patched", FILES)
    found = find_trees(patched, str(base), tmp_path / "scratch")
    with pytest.raises(UserError, match="no file under vllm/ differs"):
        choose_places(found, [])


def test_a_place_named_by_hand_is_taken_as_it_is(trees: Trees) -> None:
    (place,) = choose_places(trees, ["vllm/head.py:17:any-rule"])
    assert place.symbol == "Drafter.combine_hidden_states"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("vllm/head.py", "PATH:LINE:RULE"),
        ("vllm/head.py:x:rule", "PATH:LINE:RULE"),
        ("vllm/none.py:1:rule", "not a file"),
        ("vllm/head.py:900:rule", "no line 900"),
    ],
)
def test_a_place_that_is_none_is_refused(trees: Trees, text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        parse_place(text, trees.base)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_the_base_of_a_checkout_is_its_last_commit(tmp_path: Path) -> None:
    checkout = tree(tmp_path / "checkout", FILES)
    git(checkout, "init", "-q")
    git(checkout, "add", "vllm/__init__.py", "vllm/head.py", "vllm/linear.py")
    git(checkout, "commit", "-q", "-m", "base")
    (checkout / "vllm" / "head.py").write_text(FIXED)
    found = find_trees(checkout, None, tmp_path / "scratch")
    assert found.changed == ("vllm/head.py",)
    assert (found.base / "vllm" / "head.py").read_text() == COMBINER
    # The build writes it and git ignores it: the base is of the same version.
    assert (found.base / "vllm" / "_version.py").is_file()


def test_an_unknown_revision_is_refused(tmp_path: Path) -> None:
    checkout = tree(tmp_path / "checkout", FILES)
    git(checkout, "init", "-q")
    with pytest.raises(UserError, match="neither a folder nor a revision"):
        find_trees(checkout, "no-such", tmp_path / "scratch")


def test_without_git_the_base_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--base"):
        find_trees(tree(tmp_path / "checkout"), None, tmp_path / "scratch")


def test_a_tree_is_not_its_own_base(tmp_path: Path) -> None:
    checkout = tree(tmp_path / "checkout")
    with pytest.raises(UserError, match="itself"):
        find_trees(checkout, str(checkout), tmp_path / "scratch")


def test_a_clean_change_has_no_static_problem(trees: Trees) -> None:
    report = static.check(trees)
    assert report.files == 1
    assert report.problems == {}


def test_a_change_that_does_not_parse_is_named(trees: Trees) -> None:
    (trees.patched / "vllm" / "head.py").write_text(FIXED + "def (:\n")
    assert "does not parse" in static.check(trees).problems["vllm/head.py"]


def test_only_diagnostics_that_the_base_did_not_have_count(tmp_path: Path) -> None:
    settings = {"pyproject.toml": '[tool.ruff.lint]\nselect = ["F401"]\n'}
    old = "import os\n"
    base = tree(tmp_path / "base", {**settings, "vllm/a.py": old, "vllm/b.py": ""})
    patched = tree(
        tmp_path / "patched", {**settings, "vllm/a.py": old + "x = 1\n", "vllm/b.py": "import os\n"}
    )
    report = static.check(find_trees(patched, str(base), tmp_path / "scratch"))
    assert report.problems == {"vllm/b.py": "new ruff diagnostics: F401"}
