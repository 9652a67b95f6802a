"""The test written for a pull request fails before the repair and passes after it, in a real vLLM."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import platformdirs

from dtypefix.validate.overlay import build
from dtypefix.validate.probing import environment

from .conftest import Prove

HEAD = "vllm/model_executor/models/llama_eagle3.py"
SCHEME = "vllm/model_executor/layers/quantization/modelopt.py"

# The runtime has no pytest: this environment's lies behind its own packages.
RUN = "import sys; sys.path.append(sys.argv.pop(1)); import pytest; sys.exit(pytest.main(sys.argv[1:]))"


def test_it_fails_before_and_passes_after(
    prove: Prove,
    python: Path,
    release: Callable[[str], Path],
    rewritten: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    base, patched = release("0.20.2"), rewritten("0.20.2")
    emitted = tmp_path / "test_emitted.py"
    places = (f"{HEAD}:372:unguarded-combiner", f"{SCHEME}:450:ambient-out-dtype")
    named = [option for place in places for option in ("--place", place)]
    prove(patched, base, *named, "--tier", "model", "--tier", "flip", "--emit-test", str(emitted))
    ended = {}
    for which, tree in (("base", base), ("patched", patched)):
        overlay = build(tree, None, Path(platformdirs.user_cache_dir("dtypefix")) / "overlays")
        ended[which] = subprocess.run(
            [str(python), "-P", "-c", RUN, sysconfig.get_paths()["purelib"], "-q", str(emitted)],
            env={**environment(overlay, str(tmp_path), 1), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended["base"].returncode == 1, ended["base"].stdout[-2000:]
    assert "4 failed" in ended["base"].stdout
    assert "have the same dtype" in ended["base"].stdout
    assert ended["patched"].returncode == 0, ended["patched"].stdout[-2000:]
    assert "4 passed" in ended["patched"].stdout
