"""Where functions are reached."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from dtypefix.analysis.flow import Flows
from dtypefix.analysis.module import FunctionNode


def scopes(found: Flows) -> dict[str, str]:
    return {
        found.module.symbol(node): found.scopes.of(node).value
        for node in ast.walk(found.module.tree)
        if isinstance(node, FunctionNode)
    }


def test_roles(flows: Callable[..., Flows]) -> None:
    found = flows(
        """
        class A(nn.Module):
            def __init__(self): ...
            def create_weights(self, layer): ...
            def load_weights(self, weights): ...
            def process_weights_after_loading(self, layer): ...
            def forward(self, x): ...
            def forward_native(self, x): ...
            def apply(self, layer, x): ...
            def other(self): ...

        def free(): ...
        """
    )
    assert scopes(found) == {
        "A.__init__": "build",
        "A.create_weights": "build",
        "A.load_weights": "build",
        "A.process_weights_after_loading": "both",
        "A.forward": "outside",
        "A.forward_native": "outside",
        "A.apply": "outside",
        "A.other": "unknown",
        "free": "unknown",
    }


def test_helpers_take_the_scope_of_their_callers(flows: Callable[..., Flows]) -> None:
    found = flows(
        """
        class A(nn.Module):
            def __init__(self):
                self._built()
                self._shared()
                free_built()
                self._chain()
                later = self._handed_on

            def forward(self, x):
                self._run()
                self._shared()

            def _built(self): ...
            def _run(self): ...
            def _shared(self): ...
            def _chain(self): self._chained()
            def _chained(self): ...
            def _handed_on(self): ...
            def _recursive(self): self._recursive()

        def free_built(): ...
        """
    )
    told = scopes(found)
    assert told["A._built"] == "build"
    assert told["A._run"] == "outside"
    assert told["A._shared"] == "both"
    assert told["A._chained"] == "build"
    assert told["A._handed_on"] == "unknown"
    assert told["A._recursive"] == "unknown"
    assert told["free_built"] == "build"


def test_helpers_of_a_subclass_called_by_the_base(flows: Callable[..., Flows]) -> None:
    base = """
class Base:
    def __init__(self):
        self.init_parts()

    def forward(self, x):
        return self.run_parts(x)
"""
    found = flows(
        """
        from pkg.base import Base

        class A(Base):
            def init_parts(self): ...
            def run_parts(self, x): ...

        class Near(nn.Module):
            def __init__(self):
                self.init_near()

        class B(Near):
            def init_near(self): ...
        """,
        files={"pkg.base": base},
    )
    told = scopes(found)
    assert told["A.init_parts"] == "build"
    assert told["A.run_parts"] == "outside"
    assert told["B.init_near"] == "build"


def test_kernels_run_outside(flows: Callable[..., Flows]) -> None:
    found = flows(
        """
        from torch.library import register_fake
        from vllm.utils.torch_utils import direct_register_custom_op

        @register_fake("ns::op")
        def _(x): ...

        def op_impl(x): ...
        def op_fake(x): ...

        direct_register_custom_op(op_name="op", op_func=op_impl, fake_impl=op_fake)
        """
    )
    assert set(scopes(found).values()) == {"outside"}


def test_module_level_and_defaults_run_outside(flows: Callable[..., Flows]) -> None:
    found = flows(
        """
        DTYPE = torch.get_default_dtype()

        class A(nn.Module):
            def __init__(self, dtype=torch.get_default_dtype()):
                self.dtype = torch.get_default_dtype()
        """
    )
    reads = [
        n
        for n in ast.walk(found.module.tree)
        if isinstance(n, ast.Call) and "get_default" in ast.unparse(n.func)
    ]
    told = {n.lineno: (found.scope_at(n).value, found.value(n).describe()) for n in reads}
    outside = ("outside", "the default dtype outside the build scope (float32)")
    assert told == {
        7: outside,
        10: outside,
        11: ("build", "the model dtype (the default dtype inside the build scope)"),
    }


@pytest.mark.parametrize(
    ("name", "cls", "expected"),
    [
        ("vllm.v1.worker.runner", "Runner", "unknown"),
        ("vllm.v1.attention.backends.some", "SomeImpl", "build"),
        ("vllm.model_executor.layers.some", "Layer", "build"),
    ],
)
def test_constructors_of_the_engine_are_not_in_the_build_scope(
    flows: Callable[..., Flows], name: str, cls: str, expected: str
) -> None:
    found = flows(f"class {cls}:\n    def __init__(self): ...\n", name=name)
    assert scopes(found) == {f"{cls}.__init__": expected}


def test_nested_functions_take_the_scope_around(flows: Callable[..., Flows]) -> None:
    found = flows(
        """
        class A(nn.Module):
            def create_weights(self, layer):
                def loader(w): ...
        """
    )
    assert scopes(found)["A.create_weights.loader"] == "build"
