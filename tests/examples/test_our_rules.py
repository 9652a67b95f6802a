"""The example of a rule pack: its page's cases hold, and the command line takes it in both ways."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dtypefix.api import InputFile, Options, Roots, rewrite, scan
from tests.cli.conftest import REPOSITORY
from tests.codemods.cases import read_page

PACK = REPOSITORY / "examples" / "our_rules" / "our_rules"
PAGE = read_page(PACK / "tensor_type_call.md")
FAULTY = "import torch\n\n\ndef f(x):\n    return x.type(torch.float16)\n"


@pytest.mark.parametrize("case", PAGE.cases, ids=lambda case: str(case.number))
def test_the_cases_of_its_page_hold(case, tmp_path: Path) -> None:
    options = Options(select=(PAGE.rule,), packs=(str(PACK),))
    file, roots = InputFile("case.py", tmp_path / "case.py", case.code.encode()), Roots((tmp_path,), tmp_path)
    (found,) = scan([file], options, roots)
    assert {(finding.span.line, "finding") for finding in found.findings} == case.expected
    (fixed,) = rewrite([file], options, roots)
    assert fixed.after.decode() == case.fixed.get("safe", case.code)


def test_a_configuration_file_that_is_named_brings_it_in(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(FAULTY)
    (tmp_path / "dtypefix.toml").write_text(f'rules = ["{PACK}/"]\nextend-select = ["ours"]\n')
    done = run("scan", "a.py", "--config", "dtypefix.toml")
    assert done.returncode == 1, done.stderr
    assert "a.py:5:12: warning tensor-type-call: " in done.stdout
    assert run("rewrite", "a.py", "--config", "dtypefix.toml").returncode == 0
    assert (tmp_path / "a.py").read_text() == FAULTY.replace(".type(", ".to(")


def test_an_installed_pack_is_found_by_its_entry_point(run, tmp_path: Path, environment) -> None:
    metadata = tmp_path / "site" / "our_rules-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: our-rules\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[dtypefix.rules]\nours = our_rules\n")
    path = os.pathsep.join([str(tmp_path / "site"), str(PACK.parent), environment["PYTHONPATH"]])
    (tmp_path / "a.py").write_text(FAULTY)
    done = run("scan", "a.py", "--select", "ours", env={"PYTHONPATH": path})
    assert "tensor-type-call" in done.stdout
    assert "a tensor is cast by" in run("rules", env={"PYTHONPATH": path}).stdout
