"""The tables of facts about vLLM that single rules need, from ``knowledge/*.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def facts(file: str) -> dict[str, Any]:
    """The tables of one file, ``facts("kv_cache")`` for ``knowledge/kv_cache.toml``; read once a run."""
    text = files("codemods").joinpath("knowledge", f"{file}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
