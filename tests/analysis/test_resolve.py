"""What queries look into: attributes, helper methods, layers, other files."""

from __future__ import annotations

import ast
from collections.abc import Callable

from dtypefix.analysis.evidence import evidence_of
from dtypefix.analysis.flow import Flow, Flows
from dtypefix.analysis.origins import Kind, Value

Told = Callable[..., list[str]]
Shown = Callable[..., list[Value]]

LINEAR = """
import torch
from torch import nn

class LinearBase(nn.Module):
    def __init__(self, params_dtype=None, quant_config=None):
        self.params_dtype = params_dtype

class ReplicatedLinear(LinearBase):
    def forward(self, x):
        return x, None
"""


def test_attributes_come_from_the_constructor(told: Told) -> None:
    source = """
    class A(nn.Module):
        def __init__(self, vllm_config, dtype, flag):
            self.out_dtype = torch.get_default_dtype()
            self.model_dtype = vllm_config.model_config.dtype
            self.cfg = vllm_config.model_config
            self.hf = vllm_config.model_config.hf_config
            self.buffer = torch.zeros(3, dtype=torch.int32)
            self.given = dtype
            self.scale = 0.5
            self.mixed = torch.float16 if flag else torch.float32

        def forward(self, x: torch.Tensor):
            show(self.out_dtype, self.model_dtype, self.cfg.dtype, self.hf.dtype)
            show(self.buffer, self.given, self.mixed, self.unset)
            show(x * self.scale)
    """
    assert told(source) == [
        "model:ambient",
        "model:config",
        "model:config",
        "checkpoint:self.hf.dtype",
        "int32",
        "attribute:self.given",
        "float16 | float32",
        "attribute:self.unset",
        "x",
    ]


def test_attributes_of_a_base_class_in_another_file(shown: Shown) -> None:
    base = (
        "import torch\nclass Base:\n    def __init__(self, dtype):\n        self.out_dtype = torch.float16\n"
    )
    source = """
    from pkg.base import Base

    class A(Base):
        def forward(self, x: torch.Tensor):
            show(x.to(self.out_dtype))
    """
    [value] = shown(source, files={"pkg.base": base})
    assert value.literal == "float16"
    assert any(step.path == "pkg/base.py" for step in value.chain())


def test_helpers_are_replaced_by_what_they_return(told: Told) -> None:
    source = """
    class A(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor):
            show(self._reshape(x), self._up(x), self._pair(x, b=y))
            a, b = self._pair(x, y)
            show(a, b, free(y), self._default(x), self._loop(x))

        def _reshape(self, t):
            return t.reshape(-1)

        def _up(self, t):
            return t.float()

        def _pair(self, a, b):
            return a, b.half()

        def _default(self, t, dtype=torch.float16):
            return t.to(dtype)

        def _loop(self, t):
            return self._loop(t)

    def free(t):
        return t * 2
    """
    assert told(source) == [
        "x",
        "float32",
        "(x, float16)",
        "x",
        "float16",
        "y",
        "float16",
        "output:self._loop",
    ]


def test_an_overridable_unknown_method_stays_an_output(told: Told) -> None:
    source = """
    class A(nn.Module):
        def forward(self, x: torch.Tensor):
            show(self.not_here(x), self._generator(x), other(x))

        def _generator(self, t):
            yield t
    """
    assert told(source) == ["output:self.not_here", "output:self._generator", "output:other"]


def test_layers_hand_on_the_dtype_of_their_input(told: Told) -> None:
    source = """
    from pkg.linear import ReplicatedLinear
    from vllm.model_executor.layers.layernorm import RMSNorm

    class A(nn.Module):
        def __init__(self, quant_config):
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.proj = ReplicatedLinear(quant_config=quant_config)
            self.norm = RMSNorm(3)
            self.norms = nn.ModuleList([RMSNorm(3) for _ in range(2)])
            self.embed = nn.Embedding(3, 3)
            self.other = Mystery()

        def forward(self, x: torch.Tensor, ids: torch.Tensor):
            y, _ = self.proj(self.norm(x))
            show(self.fc(x), y, self.fc(self.other(x)), self.embed(ids))
            for norm in self.norms:
                show(norm(x))
            fc = self.fc
            show(fc(x), fc.weight.dtype)
    """
    assert told(source, files={"pkg.linear": LINEAR}) == [
        "x",
        "x",
        "output:self.other",
        "layer weight:self.embed",
        "x",
        "x",
        "layer weight:self.fc",
    ]


def test_layer_facts(function: Callable[..., Flow]) -> None:
    flow = function(
        """
        from pkg.linear import ReplicatedLinear

        class Inner(nn.Module):
            def __init__(self, quant_config):
                self.fc = ReplicatedLinear(quant_config=quant_config)
                self.conv = nn.Conv2d(3, 3, 3)

        class A(nn.Module):
            def __init__(self, quant_config):
                self.model = Inner(quant_config)

            def f(self, x):
                a = self.model.fc(x)
                b = self.model.conv(x)
                return self.model.mystery(a)
        """,
        files={"pkg.linear": LINEAR},
    )
    calls = {ast.unparse(n.func): n for n in ast.walk(flow.node) if isinstance(n, ast.Call)}
    linear = flow.layer(calls["self.model.fc"].func)
    assert linear is not None
    assert linear.layer.quantisable
    assert linear.layer.params_dtype
    assert linear.construction.argument("quant_config") is not None
    convolution = flow.layer(calls["self.model.conv"].func)
    assert convolution is not None
    assert not convolution.layer.quantisable
    assert flow.layer(calls["self.model.mystery"].func) is None


def test_modules_of_this_project_tell_by_their_forward(told: Told) -> None:
    source = """
    class Inner(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(3, 3)

        def forward(self, t):
            return self.fc(t.to(self.fc.weight.dtype))

    class A(nn.Module):
        def __init__(self):
            self.inner = Inner()

        def forward(self, x):
            show(self.inner(x))
    """
    assert told(source) == ["layer weight:self.inner.fc"]


def test_a_parameter_reaches_a_projection_through_a_norm(function: Callable[..., Flow]) -> None:
    source = """
        class A(nn.Module):
            def __init__(self):
                self.fc = nn.Linear(3, 3)
                self.norm = nn.LayerNorm(3)

            def f(self, h: torch.Tensor, cast):
                h = self.norm(h)
                {}
                return self.fc(h)
        """
    uncast = function(source.format("pass"))
    assert [u.callee for u in uncast.uses("h")] == ["self.norm", "self.fc"]
    guarded = function(source.format("h = h.to(self.fc.weight.dtype)"))
    assert "self.fc" not in [u.callee for u in guarded.uses("h")]
    half_guarded = function(source.format("if cast: h = h.half()"))
    assert "self.fc" in [u.callee for u in half_guarded.uses("h")]


def test_a_function_of_another_file(told: Told) -> None:
    helper = "def up(t):\n    return t.float()\n\ndef keep(t):\n    return t.view(-1)\n"
    source = """
    from pkg.helper import keep, up
    from elsewhere import far

    def f(x: torch.Tensor):
        show(up(x), keep(x), far(x))
    """
    assert told(source, files={"pkg.helper": helper}) == ["float32", "x", "output:elsewhere.far"]


def test_constants_of_another_file(told: Told) -> None:
    source = """
    from pkg.constants import FP8_DTYPE, OTHER_DTYPE

    def f(x: torch.Tensor):
        show(x.to(FP8_DTYPE), x.to(OTHER_DTYPE))
    """
    constants = "import torch\nFP8_DTYPE = torch.float8_e4m3fn\n"
    assert told(source, files={"pkg.constants": constants}) == [
        "float8_e4m3fn",
        "attribute:@pkg.constants.OTHER_DTYPE",
    ]


def test_evidence_reaches_into_the_other_file(flows: Callable[..., Flows]) -> None:
    base = "import torch\nclass Base:\n    def __init__(self):\n        self.out_dtype = torch.float16\n"
    found = flows(
        """
        from pkg.base import Base

        class A(Base):
            def forward(self, x):
                return x.to(self.out_dtype)
        """,
        files={"pkg.base": base},
    )
    returned = next(n for n in ast.walk(found.module.tree) if isinstance(n, ast.Return))
    assert returned.value is not None
    value = found.value(returned.value)
    assert value.has(Kind.LITERAL, "float16")
    evidence = evidence_of(value, found.module)
    assert [(e.path, e.line) for e in evidence] == [("pkg/base.py", 4), ("pkg/model.py", 11)]


def test_buffers_properties_and_what_a_constructor_was_given(told: Told) -> None:
    source = """
    class Inner(nn.Module):
        def __init__(self, dtype, other):
            self.fc = nn.Linear(3, 3)
            self.cast_dtype = dtype
            self.open_dtype = other
            self.register_buffer("table", torch.zeros(3, dtype=torch.int32))

        @property
        def dtype(self):
            return self.fc.weight.dtype

        def method(self):
            return self.fc.weight.dtype

    class A(nn.Module):
        def __init__(self, vllm_config, other):
            self.inner = Inner(vllm_config.model_config.dtype, other)

        def forward(self, x):
            show(self.inner.table, self.inner.dtype, self.inner.cast_dtype)
            show(self.inner.open_dtype, self.inner.method)
    """
    assert told(source) == [
        "int32",
        "layer weight:self.inner.fc",
        "model:config",
        "attribute:self.inner.open_dtype",
        "attribute:self.inner.method",
    ]


def test_what_a_class_assigns_goes_before_what_a_name_suggests(told: Told) -> None:
    source = """
    class Impl:
        def __init__(self, kv_cache_dtype: str):
            self.kv_cache_dtype = kv_cache_dtype

        def forward(self, x):
            show(self.kv_cache_dtype)

    class Builder:
        def __init__(self, vllm_config):
            self.kv_cache_dtype = vllm_config.cache_config.cache_dtype

        def build(self):
            show(self.kv_cache_dtype)
    """
    assert told(source) == ["kv cache:resolved", "kv cache:global"]
