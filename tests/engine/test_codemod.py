from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ..support import AMBIENT, AMBIENT_FIXED

COMBINER = """\
import torch


class Drafter:
    def __init__(self, size):
        self.fc = {layer}(size, size)

    def combine_hidden_states(self, hidden_states):
        return self.fc(hidden_states)  # keep me
"""


def codemod(command: str, *files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "libcst.tool", "codemod", "-x", command, *map(str, files)],
        cwd=files[0].parent,
        capture_output=True,
        text=True,
    )


def test_each_rule_runs_under_libcsts_own_tool(tmp_path: Path) -> None:
    ambient, combiner = tmp_path / "ambient.py", tmp_path / "combiner.py"
    ambient.write_text(AMBIENT)
    combiner.write_text(COMBINER.format(layer="torch.nn.Linear"))
    assert codemod("codemods.ambient_out_dtype.Command", ambient).returncode == 0
    assert codemod("codemods.unguarded_combiner.Command", combiner).returncode == 0
    assert ambient.read_text() == AMBIENT_FIXED
    cast = "        hidden_states = hidden_states.to(self.fc.weight.dtype)\n"
    before, after = COMBINER.format(layer="torch.nn.Linear").split("        return self.fc")
    assert combiner.read_text() == before + cast + "        return self.fc" + after


def test_what_it_does_not_fix_is_warned_of_and_left(tmp_path: Path) -> None:
    file = tmp_path / "combiner.py"
    file.write_text(COMBINER.format(layer="Unknown"))
    run = codemod("codemods.unguarded_combiner.Command", file)
    assert file.read_text() == COMBINER.format(layer="Unknown")
    assert "line 9" in run.stdout + run.stderr
