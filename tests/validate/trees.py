"""Small trees that look like vLLM's to whoever only reads files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

VERSION = "__version__ = version = '0.31.2'\n"


def tree(root: Path, files: Mapping[str, str] | None = None) -> Path:
    everything = {"vllm/__init__.py": "", "vllm/_version.py": VERSION, **(files or {})}
    for name, text in everything.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root
