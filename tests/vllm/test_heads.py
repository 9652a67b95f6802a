"""The real forward of EAGLE and MTP heads, whose hidden states come from the target model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Proof, Prove

MODELS = "vllm/model_executor/models"
CAST = "        {name} = {name}.to({source}.dtype)\n"

# Per head: where it projects, where a cast belongs, what is cast and what has the right dtype.
HEADS = {
    "llama_eagle.py": (107, 107, "hidden_states", "input_embeds"),
    "mimo_mtp.py": (81, 79, "previous_hidden_states", "inputs_embeds"),
    "glm4_moe_mtp.py": (116, 114, "previous_hidden_states", "inputs_embeds"),
    "ernie_mtp.py": (76, 74, "previous_hidden_states", "inputs_embeds"),
}


@pytest.fixture(scope="module")
def proof(prove: Prove, release: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Proof:
    base = release("0.20.2")
    patched = tmp_path_factory.mktemp("heads") / base.name
    shutil.copytree(base / "vllm", patched / "vllm")
    options = ["--tier", "model"]
    for file, (place, at, name, source) in HEADS.items():
        lines = (patched / MODELS / file).read_text().splitlines(keepends=True)
        lines.insert(at - 1, CAST.format(name=name, source=source))
        (patched / MODELS / file).write_text("".join(lines))
        options += ["--place", f"{MODELS}/{file}:{place}:unguarded-combiner"]
    return prove(patched, base, *options)


@pytest.mark.parametrize("file", list(HEADS))
def test_a_head_takes_hidden_states_of_any_dtype_after_a_cast(proof: Proof, file: str) -> None:
    row = proof.row(file, HEADS[file][0], "model")
    assert row["verdict"] == "VALIDATED"
    assert "expected m1 and m2 to have the same dtype" in row["before"]
