"""What single expressions make of dtypes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Told = Callable[..., list[str]]


def f(body: str, parameters: str = "x: torch.Tensor, y: torch.Tensor") -> str:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return f"def f({parameters}):\n{lines}\n"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x.to(torch.float32)", "float32"),
        ("x.to(dtype=torch.float16)", "float16"),
        ("x.to('cuda', torch.bfloat16)", "bfloat16"),
        ("x.to(device='cuda', dtype=torch.bfloat16)", "bfloat16"),
        ("x.to('cuda')", "x"),
        ("x.to('cuda', non_blocking=True)", "x"),
        ("x.to(y)", "y"),
        ("x.to(y.dtype)", "y"),
        ("x.to(y.device)", "x"),
        ("x.to(None)", "x"),
        ("x.to(*args)", "?"),
        ("x.to(thing)", "?"),
        ("x.to(dtype=thing_dtype)", "thing_dtype"),
        ("x.type(torch.half)", "float16"),
        ("x.type('torch.FloatTensor')", "?"),
        ("x.type_as(y)", "y"),
        ("x.float()", "float32"),
        ("x.half().double()", "float64"),
        ("x.bfloat16()", "bfloat16"),
        ("x.int()", "int32"),
        ("x.long()", "int64"),
        ("x.view(torch.uint8)", "uint8"),
        ("x.view(dtype=torch.uint8)", "uint8"),
        ("x.view(-1, 4)", "x"),
    ],
)
def test_casts(told: Told, expression: str, expected: str) -> None:
    assert told(f(f"show({expression})", "x: torch.Tensor, y: torch.Tensor, thing, thing_dtype, *args")) == [
        expected
    ]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("torch.empty(3)", "ambient:unknown"),
        ("torch.zeros(3, dtype=torch.float16)", "float16"),
        ("torch.zeros(3, dtype=x.dtype)", "x"),
        ("torch.zeros(3, dtype=None)", "ambient:unknown"),
        ("torch.zeros(3, **options)", "?"),
        ("torch.full((3,), 0)", "int64"),
        ("torch.full((3,), 0.0)", "ambient:unknown"),
        ("torch.full((3,), False)", "bool"),
        ("torch.full((3,), fill)", "?"),
        ("torch.full((3,), fill, dtype=torch.int32)", "int32"),
        ("torch.arange(4)", "int64"),
        ("torch.arange(0, 4, 0.5)", "ambient:unknown"),
        ("torch.arange(x.shape[0])", "int64"),
        ("torch.arange(fill)", "?"),
        ("torch.tensor(3)", "int64"),
        ("torch.tensor([1, 2])", "int64"),
        ("torch.tensor([1.0, 2])", "ambient:unknown"),
        ("torch.tensor(fill)", "?"),
        ("torch.tensor(x)", "x"),
        ("torch.as_tensor(x, dtype=torch.int32)", "int32"),
        ("torch.from_numpy(fill)", "?"),
        ("torch.randint(0, 3, (4,))", "int64"),
        ("torch.empty_like(x)", "x"),
        ("torch.empty_like(x, dtype=torch.uint8)", "uint8"),
        ("torch.zeros_like(fill)", "fill"),
        ("x.new_empty(3)", "x"),
        ("x.new_zeros(3, dtype=torch.int32)", "int32"),
        ("nn.Parameter(torch.zeros(3, dtype=torch.int8))", "int8"),
    ],
)
def test_factories(told: Told, expression: str, expected: str) -> None:
    assert told(f(f"show({expression})", "x: torch.Tensor, fill, **options")) == [expected]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x + x", "x"),
        ("x * 2.0", "x"),
        ("2 * x", "x"),
        ("x.half() + x.bfloat16()", "float32"),
        ("x.half() + torch.tensor(1.0, dtype=torch.float32)", "float16"),
        ("x.int() / 2", "ambient:unknown"),
        ("x.int() * 2.0", "ambient:unknown"),
        ("x.int() // 2", "int32"),
        ("x.float() * y", "float32"),
        ("x * y", "promoted(x, y)"),
        ("x.bfloat16() * y", "promoted(bfloat16, y)"),
        ("x.long() + y", "promoted(int64, y)"),
        ("x.bool() * y", "y"),
        ("x.view(torch.float8_e4m3fn) * y", "?"),
        ("x @ y", "x"),
        ("-x", "x"),
        ("x == y", "bool"),
        ("x > 0", "bool"),
        ("torch.add(x.half(), y.float())", "float32"),
        ("torch.maximum(x, x)", "x"),
        ("torch.where(x > 0, x.half(), 0.0)", "float16"),
        ("torch.where(x > 0, x.half(), y.float())", "float32"),
        ("torch.cat([x, x], dim=-1)", "x"),
        ("torch.cat([x.half(), y.float()])", "float32"),
        ("torch.cat((x, y))", "promoted(x, y)"),
        ("torch.stack([x for _ in range(3)])", "x"),
        ("torch.outer(x.long(), y.float())", "float32"),
        ("torch.matmul(x, y)", "x"),
        ("F.linear(x, y)", "x"),
        ("F.embedding(x, y)", "y"),
        ("torch.einsum('ij,jk->ik', x, y)", "x"),
        ("F.scaled_dot_product_attention(x, y, y)", "x"),
    ],
)
def test_promotion_in_expressions(told: Told, expression: str, expected: str) -> None:
    assert told(f(f"show({expression})")) == [expected]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x.pow(2).mean(-1, keepdim=True)", "x"),
        ("x.sum(dim=-1, dtype=torch.float32)", "float32"),
        ("x.int().sum()", "int64"),
        ("x.bool().cumsum(0)", "int64"),
        ("x.softmax(-1)", "x"),
        ("torch.softmax(x, dim=-1, dtype=torch.float32)", "float32"),
        ("F.softmax(x, -1, dtype=torch.float32)", "float32"),
        ("torch.rsqrt(x + 1e-6)", "x"),
        ("x.argmax(-1)", "int64"),
        ("x.topk(2, dim=-1)", "(x, int64)"),
        ("x.topk(2).indices", "int64"),
        ("torch.topk(x, 2)[0]", "x"),
        ("x.max()", "x"),
        ("x.max(dim=-1)", "(x, int64)"),
        ("x.isnan()", "bool"),
        ("x.item()", "number"),
        ("x.tolist()", "other"),
        ("x.size(0)", "int"),
        ("x.shape[0]", "int"),
        ("x.split(2)[0]", "x"),
        ("x.chunk(2, dim=-1)[1]", "x"),
        ("x.unsqueeze(0).transpose(0, 1).contiguous().flatten()", "x"),
        ("x[..., :2]", "x"),
        ("x[x > 0]", "x"),
        ("x.t()", "x"),
        ("x.T", "x"),
        ("x.data", "x"),
        ("x.index_select(0, y)", "x"),
        ("x.masked_fill(y, 0.0)", "x"),
        ("x.copy_(y)", "x"),
        ("F.pad(x, (0, 1))", "x"),
        ("F.gelu(x)", "x"),
        ("F.one_hot(x)", "int64"),
        ("torch.view_as_real(x)", "?"),
    ],
)
def test_shapes_and_reductions(told: Told, expression: str, expected: str) -> None:
    assert told(f(f"show({expression})")) == [expected]


@pytest.mark.parametrize(
    "expression",
    [
        "mystery(x)[0] + 1",
        "x.mystery",
        "[x, 3][i]",
        "{'a': x}['a']",
        "x if i else 'text'",
        "(lambda t: t)(x)",
        "torch.view_as_complex(x)",
        "torch.frombuffer(i)",
    ],
)
def test_what_is_not_followed_makes_no_claim(shown: Callable[..., list], expression: str) -> None:
    [value] = shown(f(f"show({expression})", "x: torch.Tensor, i"))
    assert value.literal is None
    assert value.unknown or value.foreign


def test_a_tensor_and_its_dtype_differ_in_form_only(shown: Callable[..., list]) -> None:
    tensor, dtype = shown(f("show(x, x.dtype)"))
    assert tensor.is_tensor
    assert dtype.is_dtype
    assert tensor.origins == dtype.origins


def test_sources(told: Told) -> None:
    source = """
    from transformers import PretrainedConfig

    def f(vllm_config, config: PretrainedConfig, cache_config, layer: nn.Module, params_dtype=None):
        show(vllm_config.model_config.dtype)
        show(config.torch_dtype, config.vision_config.dtype, vllm_config.model_config.hf_config.dtype)
        show(cache_config.cache_dtype)
        show(current_platform.fp8_dtype())
        show(layer.weight.dtype, layer.params_dtype, next(layer.parameters()).dtype)
        show(params_dtype, getattr(config, "dtype", None))
        show(layer.num_heads)
    """
    assert told(source) == [
        "model:config",
        "checkpoint:config.torch_dtype",
        "checkpoint:config.vision_config.dtype",
        "checkpoint:vllm_config.model_config.hf_config.dtype",
        "kv cache:global",
        "fp8",
        "layer weight:layer",
        "layer compute:layer",
        "layer weight:layer",
        "model:params_dtype",
        "None | checkpoint:config.dtype",
        "attribute:layer.num_heads",
    ]


def test_a_config_of_another_package_is_not_the_checkpoints(told: Told) -> None:
    source = """
    from pkg.settings import EngineConfig

    def f(config: EngineConfig):
        show(config.dtype)
    """
    assert told(source) == ["attribute:config.dtype"]


def test_quantising_ops_return_what_the_pack_says(told: Told) -> None:
    source = """
    def f(x: torch.Tensor):
        q, s = ops.scaled_fp8_quant(x)
        i, t, _ = ops.scaled_int8_quant(x)
        show(q, s, i, t)
    """
    assert told(source) == ["fp8", "float32", "int8", "float32"]


def test_aliases_of_names(told: Told) -> None:
    source = """
    from torch import float16 as fp16, get_default_dtype as gdd
    HALF = torch.half
    ALIAS = HALF

    def f(x: torch.Tensor):
        show(x.to(fp16), x.to(ALIAS), gdd())
        torch = x
        show(torch.float32)
    """
    assert told(source)[:3] == ["float16", "float16", "ambient:unknown"]
    assert told(source)[3] == "attribute:x.float32"
