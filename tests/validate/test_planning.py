from __future__ import annotations

from pathlib import Path

import pytest

from dtypefix.validate import catalogue, planning
from dtypefix.validate.jobs import Request, jobs_of
from dtypefix.validate.runtime import Runtime
from dtypefix.validate.trees import find_trees
from dtypefix.validate.verdict import Place, Tier

from .trees import tree

REGISTRY = """\
_TEXT = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM")}
_SPECULATIVE = {
    "LlamaForCausalLMEagle3": ("heads", "Eagle3LlamaForCausalLM"),
    "NewDSparkModel": ("vllm.models.new", "NewForCausalLM"),
    "Odd": ("odd", "OddHead"),
    **_TEXT,
}
"""
NEW = "vllm/models/new/nvidia/dspark.py"
FILES = {
    "vllm/model_executor/models/registry.py": REGISTRY,
    "vllm/model_executor/models/heads.py": "class Eagle3LlamaForCausalLM: ...\n",
    "vllm/model_executor/models/odd.py": "class OddHead: ...\n",
    "vllm/models/new/__init__.py": "from .nvidia.dspark import NewForCausalLM\n",
    NEW: "class Inner: ...\nclass NewForCausalLM: ...\n",
}


def place(path: str) -> Place:
    return Place(path, 1, "unguarded-combiner", "X.combine_hidden_states")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(tmp_path / "tree", FILES)


def test_a_class_gets_every_case_written_for_it_and_its_variants(root: Path) -> None:
    here = place("vllm/model_executor/models/heads.py")
    cases, wanted = planning.model_cases(root, [here])
    assert wanted[here] == [case["name"] for case in cases]
    assert {"eagle3-llama", "eagle3-llama+float16", "eagle3-llama+fp8", "eagle3-llama-norm"} <= set(
        wanted[here]
    )


def test_a_twin_that_a_package_picks_by_platform_is_built_from_its_own_file(root: Path) -> None:
    here = place(NEW)
    (case,), wanted = planning.model_cases(root, [here])
    assert wanted[here] == [case["name"]]
    assert case["method"] == "dspark"
    assert case["register"] == {
        "module": "vllm.models.new.nvidia.dspark",
        "class": "NewForCausalLM",
        "architecture": "NewDSparkModel",
    }
    (draft,) = (config for name, config in planning.model_folders([case]).items() if "@" in name)
    assert draft["architectures"] == ["NewDSparkModel"]


def test_a_class_no_one_can_guess_has_no_case(root: Path) -> None:
    here = place("vllm/model_executor/models/odd.py")
    assert planning.model_cases(root, [here]) == ([], {here: []})


def test_a_tree_without_a_registry_has_no_case(tmp_path: Path) -> None:
    bare = tree(tmp_path, {"vllm/head.py": "class Eagle3LlamaForCausalLM: ...\n"})
    assert planning.model_cases(bare, [place("vllm/head.py")])[0] == []


def test_every_case_and_scheme_names_models_that_exist() -> None:
    cases = [*catalogue.drafter_cases(), *planning.flip_cases()]
    folders = planning.model_folders(cases)
    assert all(config["architectures"] for config in folders.values())
    assert len({case["name"] for case in cases}) == len(cases)
    assert "extends" not in folders["llama"]
    assert "head_dim" not in folders["deepseek"]


def test_a_quantised_model_carries_its_scheme() -> None:
    folders = planning.model_folders([{"target": "llama", "draft": "eagle3-llama+modelopt-fp8"}])
    assert "quantization_config" not in folders["llama"]
    assert folders["eagle3-llama+modelopt-fp8"]["quantization_config"]["quant_algo"] == "FP8"


def request(tmp_path: Path, runtime: Runtime, **more: object) -> Request:
    base = tree(tmp_path / "base", {**FILES, "csrc/torch_bindings.cpp": ""})
    patched = tree(tmp_path / "patched", {**FILES, "vllm/mark.py": ""})
    heads = place("vllm/model_executor/models/heads.py")
    scheme = Place("vllm/scheme.py", 1, "ambient-out-dtype", "S.__init__")
    probes = {"unguarded-combiner": ("model",), "ambient-out-dtype": ("flip", "platform")}
    trees = find_trees(patched, str(base), tmp_path / "scratch")
    return Request(trees, (heads, scheme), probes, runtime, tmp_path, **more)  # type: ignore[arg-type]


BARE = Runtime(Path("python"), "3", "2", None, "")


def tiers(given: Request) -> set[tuple[Tier, str]]:
    return {(job.tier, job.probe.platform) for job in jobs_of(given)}


def test_without_compiled_extensions_or_a_device_only_the_model_level_runs(tmp_path: Path) -> None:
    assert tiers(request(tmp_path, BARE, platforms=("cpu", "cuda:sm_90"))) == {
        (Tier.MODEL, "cpu"),
        (Tier.FLIP, "cpu"),
        (Tier.LORA, "cpu"),
        (Tier.PLATFORM, "cuda:sm_90"),
    }


@pytest.mark.parametrize(
    ("release", "runs"), [("0.31.2", True), ("0.30.0", True), ("0.28.0", False), ("1.31.2", False)]
)
def test_engines_run_on_the_extensions_of_a_neighbouring_release(
    tmp_path: Path, release: str, runs: bool
) -> None:
    compiled = Runtime(Path("python"), "3", "2", tmp_path, release)
    assert ((Tier.E2E, "cpu") in tiers(request(tmp_path, compiled))) is runs


def test_a_device_adds_its_tier(tmp_path: Path) -> None:
    assert (Tier.DEVICE, "cuda") in tiers(request(tmp_path, BARE, device="cuda"))


def test_a_tier_that_was_not_asked_for_does_not_run(tmp_path: Path) -> None:
    only = request(tmp_path, BARE, tiers=frozenset({Tier.MODEL}), device="cuda")
    assert tiers(only) == {(Tier.MODEL, "cpu")}


def test_a_platform_that_was_not_asked_for_does_not_run(tmp_path: Path) -> None:
    assert tiers(request(tmp_path, BARE, platforms=("rocm:gfx942",))) == {(Tier.PLATFORM, "rocm:gfx942")}
