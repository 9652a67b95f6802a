"""What probes report, made by hand."""

from __future__ import annotations

from typing import Any

from dtypefix.validate.verdict import Place

PLACE = Place("vllm/models/head.py", 20, "unguarded-combiner", "Head.combine_hidden_states")
MIXED = "expected m1 and m2 to have the same dtype, but got: float != c10::BFloat16"


def error(text: str, *, at: Place = PLACE, kind: str = "RuntimeError", source: str = "") -> dict[str, Any]:
    function = at.symbol.rpartition(".")[2]
    frames = [
        {"path": at.path, "line": at.line, "function": function},
        {"path": "vllm/layers/linear.py", "line": 400, "function": "forward"},
    ]
    return {"type": kind, "text": text, "frames": frames, "cause": "", "source": source}


def ok(bits: str = "same", dtype: str = "bfloat16") -> dict[str, Any]:
    return {"dtype": dtype, "digest": bits, "finite": True, "norm": 1.0}


def fails(text: str = MIXED, **more: Any) -> dict[str, Any]:
    return {"error": error(text, **more)}


def model(bfloat16: dict[str, Any], float32: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "stage": "call",
        "control": "bfloat16",
        "needs_config": False,
        "runs": {"bfloat16": bfloat16, "float32": float32, "float16": float32},
        "covered": [[PLACE.path, PLACE.line]],
        **more,
    }


FLIPPED = Place("vllm/quantization/scheme.py", 50, "ambient-out-dtype", "Scheme.__init__")


def flip(attribute: str, output: str | None = None, *, bits: str = "same", **more: Any) -> dict[str, Any]:
    return {
        "stage": "done" if output else "load",
        "attributes": {"Concrete.out_dtype": attribute},
        "owners": {"Concrete": ["Concrete", "Scheme", "object"]},
        "covered": [[FLIPPED.path, FLIPPED.line]],
        "kernel": "",
        "digest": bits,
        **({"output": output} if output else {}),
        **more,
    }


def flips(follow: bool, *, outputs: bool = True, **more: Any) -> dict[str, Any]:
    """A scheme whose dtype follows the default, or holds still at bfloat16."""
    runs = {}
    for default in ("float32", "bfloat16", "float16"):
        value = default if follow else "bfloat16"
        runs[default] = flip(value, value if outputs else None)
    return {"model_dtype": "bfloat16", "executed": True, "flips": runs, **more}
