"""The compiled operators a tree's ``csrc`` declares, defined without compiling anything.

An operator that only writes to its arguments needs no more than its schema to run on fake tensors;
vLLM registers fake versions of the others itself.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

_COMMENT = re.compile(r"//[^\n]*")
_LIBRARY = re.compile(
    r"(?:STABLE_)?TORCH_LIBRARY(?:_EXPAND|_FRAGMENT|_EXPAND_FRAGMENT)?\(\s*"
    r"(?:CONCAT\(\s*TORCH_EXTENSION_NAME\s*,\s*(?P<suffix>\w+)\s*\)|(?P<name>\w+))\s*,\s*(?P<variable>\w+)\s*\)"
)
_STRING = r"\"(?:[^\"\\]|\\.)*\""
_DEFINITION = re.compile(rf"(\w+)\.def\(\s*((?:{_STRING}\s*)+)\s*[,)]")

# Fragments must outlive the definitions made through them.
_alive: list[torch.library.Library] = []


def define(csrc: Path, family: str, *, supported: bool) -> tuple[int, list[str]]:
    """Define every operator that the binding files under ``csrc`` declare for a device family.

    Args:
        csrc: the tree's folder of compiled sources.
        family: ``cuda`` or ``rocm``; ROCm builds most of CUDA's operators and adds its own.
        supported: what an operator answers whose name asks whether something is supported: yes where
            no kernel is to run, so that the choices of a whole build are made; no on a device without
            compiled kernels.

    Returns:
        How many were defined, and those that were not with the reason.
    """
    defined, refused = 0, []
    for file in sorted(csrc.rglob("torch_bindings.cpp")):
        parts = file.relative_to(csrc).parts
        if "cpu" in parts or ("rocm" in parts and family != "rocm"):
            # The CPU build declares operators it lacks as placeholders without arguments.
            continue
        text = _COMMENT.sub("", file.read_text("utf-8", "replace"))
        base = "_moe_C" if "moe" in parts else "_rocm_C" if "rocm" in parts else "_C"
        blocks = list(_LIBRARY.finditer(text))
        for match in _DEFINITION.finditer(text):
            schema = "".join(re.findall(r"\"((?:[^\"\\]|\\.)*)\"", match[2]))
            space = _space(blocks, match, base)
            name = schema.partition("(")[0].strip()
            if "(" not in schema or torch._C._dispatch_has_kernel(f"{space}::{name}"):
                continue
            try:
                library = torch.library.Library(space, "FRAGMENT")
                library.define(schema)
                if "-> bool" in schema and "supports" in name:
                    library.impl(name, lambda *_: supported, "CompositeExplicitAutograd")
            except RuntimeError as error:
                refused.append(f"{space}::{name}: {str(error).splitlines()[0][:120]}")
                continue
            _alive.append(library)
            defined += 1
    return defined, refused


def _space(blocks: list[re.Match[str]], definition: re.Match[str], base: str) -> str:
    """The namespace of the nearest library block above a definition that names its variable."""
    for block in reversed(blocks):
        if block.start() < definition.start() and block["variable"] == definition[1]:
            name, suffix = block["name"], block["suffix"] or ""
            return base + suffix if name in (None, "TORCH_EXTENSION_NAME") else name
    return base
