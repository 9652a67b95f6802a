from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dtypefix.analysis.classes import ClassRef
from dtypefix.analysis.project import Project
from dtypefix.analysis.witness import NoWitness, Witness, compute_dtype
from dtypefix.sources.lookup import FileLookup

FILES = {
    "pkg/__init__.py": "from .layers import Linear as PublicLinear\n",
    "pkg/layers.py": """\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, size, params_dtype=None, quant_config=None):
        self.params_dtype = params_dtype


class Linear(Base):
    pass


class Bare(nn.Module):
    def __init__(self, size):
        self.weight = torch.empty(size)


def make(size, quant_config):
    return Linear(size, quant_config=quant_config)


Alias = Linear
""",
    "pkg/model.py": """\
from torch import nn

import pkg
from pkg import PublicLinear
from pkg.layers import Alias, Bare, Linear, make
from missing import Gone

try:
    from pkg.layers import Linear as Optional
except ImportError:
    Optional = None


class Inner:
    def __init__(self, q):
        self.fc = Linear(8, None, q)
        self.again = PublicLinear(8)
        self.aliased = Alias(8)
        self.made = make(8, q)
        self.dotted = pkg.layers.Linear(8)
        self.optional = Optional(8)
        self.plain = nn.Linear(8, 8)
        self.bare = Bare(8)
        self.gone = Gone(8)
        self.either = Linear(8) if q else None
        self.mixed = Linear(8) if q else nn.Linear(8, 8)
        self.puzzle = [Linear(8)][0]


class Outer:
    inner_cls = Inner

    def __init__(self, q):
        self.inner = self.inner_cls(q)
        self.nothing = None


class Derived(Outer):
    pass
""",
}
PLAIN = {"torch.nn.Linear": "weight.dtype"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return Project(FileLookup([tmp_path], tmp_path, [tmp_path / "pkg/model.py"]))


def cls(project: Project, name: str) -> ClassRef:
    found = project.definition(f"pkg.model.{name}")
    assert found is not None
    assert isinstance(found.node, ast.ClassDef)
    return project.class_of(found.module, found.node)


@pytest.mark.parametrize("attribute", ["fc", "again", "aliased", "made", "dotted", "optional", "either"])
def test_a_layer_is_seen_through_imports_aliases_and_factories(project: Project, attribute: str) -> None:
    witness = compute_dtype(cls(project, "Outer"), ("inner", attribute), "params_dtype", PLAIN)
    assert isinstance(witness, Witness)
    assert witness.expression == f"self.inner.{attribute}.params_dtype"
    assert any(
        e.path == "pkg/layers.py" and "Base sets self.params_dtype" in e.text for e in witness.evidence
    )


def test_a_layer_that_is_never_quantised_tells_by_its_weight(project: Project) -> None:
    witness = compute_dtype(cls(project, "Derived"), ("inner", "plain"), "params_dtype", PLAIN)
    assert isinstance(witness, Witness)
    assert witness.expression == "self.inner.plain.weight.dtype"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (("inner", "bare"), "does not set"),
        (("inner", "gone"), "missing.Gone"),
        (("inner", "mixed"), "different places"),
        (("inner", "puzzle"), "not understood"),
        (("inner", "absent"), "nothing in reach builds"),
        (("nothing", "fc"), "not understood"),
    ],
)
def test_what_cannot_be_shown_is_no_witness(project: Project, path: tuple[str, ...], reason: str) -> None:
    witness = compute_dtype(cls(project, "Outer"), path, "params_dtype", PLAIN)
    assert isinstance(witness, NoWitness)
    assert reason in witness.reason


def test_a_quant_config_is_seen_by_position_and_by_keyword(project: Project) -> None:
    for attribute in ("fc", "made"):
        witness = compute_dtype(cls(project, "Inner"), (attribute,), "params_dtype", PLAIN)
        assert any("with quant_config=" in e.text for e in witness.evidence)
    witness = compute_dtype(cls(project, "Inner"), ("again",), "params_dtype", PLAIN)
    assert any("without a quant_config" in e.text for e in witness.evidence)


def test_subclasses_are_found_through_the_tree(project: Project) -> None:
    assert [c.node.name for c in project.subclasses(cls(project, "Outer"))] == ["Derived"]
    assert not project.subclasses(cls(project, "Inner"))


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        ("import torch\nx = torch.a.b\n", "x", "torch.a.b"),
        ("import torch.nn as nn\nx = nn.Linear\n", "x", "torch.nn.Linear"),
        ("from . import layers\nx = layers.Linear\n", "x", "pkg.layers.Linear"),
        ("from ..up import y\nx = y\n", "x", None),
        ("from torch import z\ndef f(z):\n    x = z\n", "x", None),
        ("def f():\n    from torch import z\n    x = z\n", "x", "torch.z"),
        ("x = unknown\n", "x", None),
    ],
)
def test_names_resolve_as_python_resolves_them(
    project: Project, source: str, name: str, expected: str | None
) -> None:
    from dtypefix.analysis.module import Module

    module = Module("pkg/new.py", source.encode(), "pkg.new")
    values = [
        node.value
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == name
    ]
    assert project.qualified(module, values[0]) == expected
