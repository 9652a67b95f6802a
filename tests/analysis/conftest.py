"""Helpers of the analysis tests: source in, values out."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dtypefix.analysis.flow import Flow, Flows
from dtypefix.analysis.knowledge import Knowledge
from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.origins import Value
from dtypefix.analysis.project import ModuleSource, Project

PACK = Path(__file__).parents[2] / "codemods" / "knowledge"
HEADER = """\
import torch
import torch.nn.functional as F
from torch import nn
from vllm import _custom_ops as ops
from vllm.platforms import current_platform
"""


class Files:
    """A look-up of modules given as text by dotted name."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files

    def find(self, name: str) -> ModuleSource | None:
        text = self.files.get(name)
        return None if text is None else ModuleSource(name.replace(".", "/") + ".py", text.encode(), False)

    def line_length(self, path: str) -> int | None:
        return None

    def derived(self, base: str) -> list[tuple[str, str]]:
        return []


@pytest.fixture(scope="session")
def knowledge() -> Knowledge:
    return Knowledge.load(PACK)


@pytest.fixture
def flows(knowledge: Knowledge) -> Callable[..., Flows]:
    """``flows(source, **other_files)`` gives the flows of a module of package ``pkg``."""

    def build(source: str, name: str = "pkg.model", files: Mapping[str, str] | None = None) -> Flows:
        text = HEADER + textwrap.dedent(source)
        module = Module(name.replace(".", "/") + ".py", text.encode(), name)
        project = Project(Files(files or {}), lambda: knowledge)
        project.add(module)
        return project.flows(module)

    return build


@pytest.fixture
def shown(flows: Callable[..., Flows]) -> Callable[..., list[Value]]:
    """The values of the arguments of the calls of ``show`` in a source, in order."""

    def values(source: str, **options: object) -> list[Value]:
        found = flows(source, **options)
        calls = [
            node
            for node in ast.walk(found.module.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "show"
        ]
        calls.sort(key=lambda call: call.lineno)
        return [found.value(argument) for call in calls for argument in call.args]

    return values


@pytest.fixture
def told(shown: Callable[..., list[Value]]) -> Callable[..., list[str]]:
    """As ``shown``, each value in short words: ``float32``, ``x`` for parameter x, ``?`` for unknown."""

    def words(source: str, **options: object) -> list[str]:
        return [spell(value) for value in shown(source, **options)]

    return words


def spell(value: Value) -> str:
    if value.elements and value.form == "tuple":
        return "(" + ", ".join(spell(element) for element in value.elements) + ")"
    short = {"unknown": "?", "none": "None", "platform fp8": "fp8"}
    named = {"literal", "parameter", "python scalar"}
    spelled = []
    for origin in value.alternatives:
        if origin.kind == "promoted":
            parts = sorted(p.detail or p.kind for p in origin.parts)
            spelled.append("promoted(" + ", ".join(parts) + ")")
        elif origin.kind in named:
            spelled.append(origin.detail)
        else:
            spelled.append(short.get(origin.kind) or f"{origin.kind}:{origin.detail}".rstrip(":"))
    return " | ".join(sorted(spelled)) or value.form


@pytest.fixture
def function(flows: Callable[..., Flows]) -> Callable[..., Flow]:
    """The flow of the function of a name."""

    def find(source: str, name: str = "f", **options: object) -> Flow:
        found = flows(source, **options)
        for node in ast.walk(found.module.tree):
            if isinstance(node, FunctionNode) and node.name == name:
                return found.function(node)
        raise AssertionError(f"no function {name}")

    return find
