"""The promotion tables agree with torch, and say nothing where torch raises."""

from __future__ import annotations

import itertools
import warnings

import pytest

from dtypefix.analysis.promotion import (
    DTYPES,
    category,
    dtype_name,
    is_floating,
    promote,
    promote_scalar,
    promote_zero_dim,
)


def test_common_pairs() -> None:
    assert promote("float16", "bfloat16") == "float32"
    assert promote("bfloat16", "float32") == "float32"
    assert promote("int64", "bfloat16") == "bfloat16"
    assert promote("uint8", "int8") == "int16"
    assert promote("bool", "int32") == "int32"
    assert promote("complex64", "float64") == "complex128"


def test_what_torch_refuses_has_no_result() -> None:
    assert promote("float8_e4m3fn", "bfloat16") is None
    assert promote("uint16", "int32") is None


def test_python_scalars_are_weak() -> None:
    assert promote_scalar("bfloat16", "float", "float32") == "bfloat16"
    assert promote_scalar("int32", "int", "float32") == "int32"
    assert promote_scalar("int32", "float", "float32") == "float32"
    assert promote_scalar("int32", "float", None) is None
    assert promote_scalar("bool", "int", None) == "int64"


def test_a_zero_dimensional_tensor_counts_only_in_a_higher_category() -> None:
    assert promote_zero_dim("bfloat16", "float32") == "bfloat16"
    assert promote_zero_dim("int32", "float32") == "float32"
    assert promote_zero_dim("float16", "int64") == "float16"


def test_names() -> None:
    assert dtype_name("half") == "float16"
    assert dtype_name("bfloat16") == "bfloat16"
    assert dtype_name("Tensor") is None
    assert is_floating("float8_e4m3fn")
    assert not is_floating("int8")
    assert category("float8_e4m3fn") == "opaque"


@pytest.mark.filterwarnings("ignore")
def test_every_pair_agrees_with_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: the tables go unchecked here")
    dtypes = {str(d).removeprefix("torch."): d for d in vars(torch).values() if isinstance(d, torch.dtype)}
    shared = sorted(DTYPES & set(dtypes))
    assert {"float32", "bfloat16", "float8_e4m3fn", "int64", "bool"} <= set(shared)

    def real(function, *args):  # type: ignore[no-untyped-def]
        try:
            return str(function(*args)).removeprefix("torch.")
        except (RuntimeError, IndexError, NotImplementedError):
            return None

    tensors, zero_dims = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in shared:
            try:
                tensors[name] = torch.empty(2, dtype=dtypes[name])
                zero_dims[name] = torch.empty((), dtype=dtypes[name])
            except (RuntimeError, NotImplementedError):  # a dtype without storage
                continue
        wrong = [
            (a, b)
            for a, b in itertools.product(shared, shared)
            if promote(a, b) != real(torch.promote_types, dtypes[a], dtypes[b])
        ]
        wrong += [
            (a, f"zero-dim {b}")
            for a, b in itertools.product(tensors, zero_dims)
            if promote_zero_dim(a, b) != real(torch.result_type, tensors[a], zero_dims[b])
        ]
        wrong += [
            (a, f"python {kind}")
            for a in tensors
            for kind, scalar in {"bool": True, "int": 1, "float": 1.0, "complex": 1j}.items()
            if promote_scalar(a, kind, "float32") != real(torch.result_type, tensors[a], scalar)
        ]
    assert wrong == []
