"""The two seed rules on real releases: what they report, exactly, and what they write."""

from __future__ import annotations

import compileall
import difflib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dtypefix.findings import FileResult, Finding

Scanned = Callable[..., list[FileResult]]
Copied = Callable[[str], Path]
SEEDS = ("ambient-out-dtype", "unguarded-combiner")
CONFIG = "get_current_vllm_config().model_config.dtype"


def found(results: list[FileResult], rule: str, *levels: str) -> list[Finding]:
    assert not [r.skipped for r in results if r.skipped]
    return [f for r in results for f in r.findings if f.rule == rule and f.level in levels]


def places(findings: list[Finding]) -> set[str]:
    return {f"{f.path}:{f.span.line}" for f in findings}


def dtypefix(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dtypefix", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )


@pytest.mark.parametrize(
    ("version", "warnings", "errors", "files", "note"),
    [
        ("0.20.2", 9, 0, 7, "quark/schemes/quark_ocp_mx.py:165"),
        ("0.27.1", 9, 0, 7, "kernels/linear/mxfp4/aiter.py:133"),
        ("0.33.0", 7, 1, 7, "kernels/linear/mxfp4/aiter.py:164"),
    ],
)
def test_ambient_out_dtype(
    scanned: Scanned, version: str, warnings: int, errors: int, files: int, note: str
) -> None:
    results = scanned(f"vllm=={version}", *SEEDS)
    counting = found(results, SEEDS[0], "warning", "error")
    assert len([f for f in counting if f.level == "warning"]) == warnings
    assert len([f for f in counting if f.level == "error"]) == errors
    assert len({f.path for f in counting}) == files
    assert any(place.endswith(note) for place in places(found(results, SEEDS[0], "note")))


def test_the_error_of_0_33_0_is_the_fake_kernel_and_the_guarded_read_is_silent(scanned: Scanned) -> None:
    results = scanned("vllm==0.33.0", *SEEDS)
    assert places(found(results, SEEDS[0], "error")) == {"vllm/_xpu_ops.py:75"}
    modelopt = "vllm/model_executor/layers/quantization/modelopt.py"
    assert not found([r for r in results if r.path == modelopt], SEEDS[0], "error", "warning", "note")


@pytest.mark.parametrize(
    ("version", "classes"),
    [
        (
            "0.20.2",
            ["DFlashQwen3ForCausalLM", "Eagle3DeepseekV2ForCausalLM", "Eagle3LlamaForCausalLM"],
        ),
        (
            "0.27.1",
            [
                "DFlashLagunaForCausalLM",
                "DFlashQwen3ForCausalLM",
                *["DSparkDeepseekV4Model"] * 3,
                "Eagle3DeepseekV2ForCausalLM",
                "Eagle3LlamaForCausalLM",
                "Eagle3Qwen3ForCausalLM",
                "K3DSparkModel",
            ],
        ),
        (
            "0.33.0",
            [
                "DFlash2BeamForCausalLM",
                "DFlashLagunaForCausalLM",
                "DFlashQwen3ForCausalLM",
                *["DSparkDeepseekV4Model"] * 5,
                "Eagle3DeepseekV2ForCausalLM",
                "Eagle3LlamaForCausalLM",
                "Eagle3Qwen3ForCausalLM",
                "K3DSparkModel",
            ],
        ),
    ],
)
def test_unguarded_combiner(scanned: Scanned, version: str, classes: list[str]) -> None:
    counting = found(scanned(f"vllm=={version}", *SEEDS), SEEDS[1], "warning", "error")
    assert sorted(f.symbol.partition(".")[0] for f in counting) == classes
    assert {f.fix.applicability for f in counting if f.fix} == {"safe"}


def test_a_combiner_that_casts_is_silent(scanned: Scanned) -> None:
    path = "vllm/models/muse_spark/common/dspark.py"
    results = [r for r in scanned("vllm==0.33.0", *SEEDS) if r.path == path]
    assert results
    assert not found(results, SEEDS[1], "error", "warning", "note")


def test_the_witness_is_resolved_from_the_trees_own_linear_module(scanned: Scanned) -> None:
    for finding in found(scanned("vllm==0.20.2", *SEEDS), SEEDS[1], "warning"):
        shown = {e.path: e.text for e in finding.evidence}
        assert "LinearBase sets self.params_dtype" in shown["vllm/model_executor/layers/linear.py"]
        assert any("quant_config=" in e.text and "ReplicatedLinear" in e.text for e in finding.evidence)


@pytest.mark.parametrize("version", ["0.20.2", "0.27.1", "0.33.0"])
def test_rewrite_edits_only_what_it_names_and_settles_it(copied: Copied, version: str) -> None:
    tree = copied(f"vllm=={version}")
    before = {p: p.read_bytes() for p in tree.rglob("*.py")}
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    first = dtypefix("rewrite", "--select", ",".join(SEEDS), "vllm", "--format", "json", cwd=tree)
    fixed = json.loads(first.stdout)["summary"]["fixed"]
    assert fixed == {"0.20.2": 12, "0.27.1": 18, "0.33.0": 19}[version], first.stderr
    changed = {p: p.read_bytes() for p in before if p.read_bytes() != before[p]}
    added, removed = [], []
    for path, after in changed.items():
        lines = (before[path].decode().splitlines(), after.decode().splitlines())
        for line in difflib.ndiff(*lines):
            (added if line.startswith("+ ") else removed if line.startswith("- ") else []).append(
                line[2:].strip()
            )
    reads = [line for line in added if line == f"self.out_dtype = {CONFIG}"]
    casts = [line for line in added if line not in reads]
    assert removed == ["self.out_dtype = torch.get_default_dtype()"] * len(reads)
    assert len(added) == fixed
    for cast in casts:
        name = cast.partition(" ")[0]
        assert cast.startswith(f"{name} = {name}.to(self.")
        assert cast.endswith(".params_dtype)")
    if version == "0.20.2":
        assert (len(reads), len(casts)) == (9, 3)

    assert compileall.compile_dir(tree / "vllm", quiet=2, workers=2)
    second = dtypefix("rewrite", "--select", ",".join(SEEDS), "vllm", "--format", "json", cwd=tree)
    assert json.loads(second.stdout)["summary"]["fixed"] == 0
    assert {p: p.read_bytes() for p in changed} == changed

    names = [str(p.relative_to(tree)) for p in changed]
    after_ruff = ruff(tree, names)
    for path in changed:
        path.write_bytes(before[path])
    assert after_ruff == ruff(tree, names)


def ruff(tree: Path, names: list[str]) -> tuple[list[str], list[str]]:
    """Complaints of vLLM's own ruff settings, without their line numbers, and unformatted files."""
    base = [sys.executable, "-m", "ruff"]
    check = subprocess.run(
        [*base, "check", "--no-cache", "--output-format", "json", *names],
        cwd=tree,
        capture_output=True,
        text=True,
    )
    shape = subprocess.run(
        [*base, "format", "--no-cache", "--check", *names], cwd=tree, capture_output=True, text=True
    )
    assert check.returncode in (0, 1), check.stderr
    assert shape.returncode in (0, 1), shape.stderr
    complaints = [f"{c['filename']} {c['code']} {c['message']}" for c in json.loads(check.stdout)]
    return sorted(complaints), sorted(line for line in shape.stdout.splitlines() if line.startswith("Would"))


def test_line_endings_and_byte_order_mark_survive(copied: Copied, release: Copied) -> None:
    tree = copied("vllm==0.20.2")
    names = [
        "vllm/model_executor/layers/quantization/modelopt.py",
        "vllm/model_executor/models/qwen3_dflash.py",
    ]
    plain = {}
    for name in names:
        plain[name] = (tree / name).read_bytes()
    dtypefix("rewrite", *names, cwd=tree)
    expected = {name: b"\xef\xbb\xbf" + (tree / name).read_bytes().replace(b"\n", b"\r\n") for name in names}
    for name in names:
        assert (tree / name).read_bytes() != plain[name]
        (tree / name).write_bytes(b"\xef\xbb\xbf" + plain[name].replace(b"\n", b"\r\n"))
    dtypefix("rewrite", *names, cwd=tree)
    assert {name: (tree / name).read_bytes() for name in names} == expected


def test_a_plugin_is_fixed_safely_when_vllm_is_in_reach(scanned: Scanned) -> None:
    path = "vllm_ascend/models/llama_eagle3_vwn.py"
    with_vllm = scanned("vllm-ascend==0.23.0", *SEEDS, vllm="vllm==0.23.0")
    (finding,) = [f for f in found(with_vllm, SEEDS[1], "warning") if f.path == path]
    assert finding.fix is not None
    assert finding.fix.applicability == "safe"
    assert any("vllm-0.23.0/vllm/model_executor/layers/linear.py" in e.path for e in finding.evidence)

    alone = scanned("vllm-ascend==0.23.0", *SEEDS)
    (finding,) = [f for f in found(alone, SEEDS[1], "warning") if f.path == path]
    assert finding.fix is None
    assert finding.unfixed_reason is not None
    assert "--vllm-root" in finding.unfixed_reason
