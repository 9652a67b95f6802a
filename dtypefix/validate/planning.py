"""Which cases of which probe speak about which places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dtypefix.validate import catalogue
from dtypefix.validate.probing import Probe
from dtypefix.validate.runner import Limits
from dtypefix.validate.verdict import Place

# The method a drafter's architecture suggests when no case is written for its class, and the tiny
# models such a drafter is tried with.
_METHODS: tuple[tuple[str, str, str, str], ...] = (
    ("dspark", "dspark", "qwen3", "dflash-qwen3"),
    ("dflash", "dflash", "qwen3", "dflash-qwen3"),
    ("eagle3", "eagle3", "llama", "eagle3-llama"),
    ("eagle", "eagle", "llama", "eagle-llama"),
)
QUANTIZED = "modelopt-fp8-pcpt"


def model_cases(tree: Path, places: Iterable[Place]) -> tuple[list[dict[str, Any]], dict[Place, list[str]]]:
    """The drafter cases for some places, and the names of the cases each place is judged by.

    A class gets every case written for it, each also with a quantised drafter as a second control.
    A registered class without a case is tried with the tiny models of a like method, so that the
    report can say what stopped it.
    """
    cases: dict[str, dict[str, Any]] = {}
    wanted: dict[Place, list[str]] = {}
    known = catalogue.drafter_cases()
    for place in places:
        names = wanted.setdefault(place, [])
        for entry in catalogue.architectures_of(tree, place.path):
            found = [case for case in known if case["class"] == entry.class_name]
            for case in found or _guess(entry):
                for variant in _variants(case) if found else [case]:
                    cases.setdefault(variant["name"], variant)
                    if variant["name"] not in names:
                        names.append(variant["name"])
    return list(cases.values()), wanted


def _variants(case: dict[str, Any]) -> list[dict[str, Any]]:
    """A case as it is, in another model dtype (a literal is right in one only), and with a packed drafter."""
    variants = [case, case | {"name": f"{case['name']}+float16", "dtype": "float16"}]
    if case.get("draft"):
        variants.append(case | {"name": f"{case['name']}+fp8", "draft": f"{case['draft']}+{QUANTIZED}"})
    return variants


def _guess(entry: catalogue.Registered) -> list[dict[str, Any]]:
    lowered = f"{entry.architecture} {entry.class_name}".lower()
    for word, method, target, draft in _METHODS:
        if word in lowered:
            return [
                {
                    "name": f"{entry.module.removeprefix('vllm.')}:{entry.class_name}",
                    "class": entry.class_name,
                    "method": method,
                    "target": target,
                    "draft": f"{draft}@{entry.architecture}",
                    "register": {
                        "module": entry.module,
                        "class": entry.class_name,
                        "architecture": entry.architecture,
                    },
                }
            ]
    return []


def model_folders(cases: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The tiny models that cases name: ``NAME``, ``NAME@Architecture`` or ``NAME+scheme``."""
    folders: dict[str, dict[str, Any]] = {}
    for case in cases:
        for name in (case.get("target"), case.get("draft"), case.get("model")):
            if not name:
                continue
            rest, _, scheme = name.partition("+")
            base, _, architecture = rest.partition("@")
            config = catalogue.model_config(base)
            if architecture:
                config["architectures"] = [architecture]
            if scheme:
                config["quantization_config"] = catalogue.scheme_config(scheme)
            folders[name] = config
    return folders


def flip_cases() -> list[dict[str, Any]]:
    """The cases of the flip and platform probes: every scheme on the plain model, in two model dtypes."""
    cases = [
        {
            "name": scheme["name"],
            "model": f"llama+{scheme['name']}" if "quantization_config" in scheme else "llama",
            "quantization": scheme.get("quantization"),
            "deprecated": scheme.get("deprecated", False),
        }
        for scheme in catalogue.schemes()
    ]
    # Two defaults are enough to tell a dtype that follows the model from a literal.
    halves = {"dtype": "float16", "defaults": ["float32", "float16"]}
    return cases + [case | {"name": f"{case['name']}+float16"} | halves for case in cases]


def lora_cases(flips: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The schemes whose layers produce a real output on a CPU, for the LoRA symptom."""
    return [case for case in flips if case["name"] in ("modelopt-fp8", "modelopt-fp8-pcpt")]


def e2e_probes(
    drafted: Iterable[Place], wanted: Mapping[Place, Sequence[str]], quantised: bool
) -> list[tuple[Probe, dict[Place, list[str]]]]:
    """The end-to-end probes, one process each, with the cases that judge each drafter's place.

    A drafter runs twice: as it is, and with a float32 hidden state injected into its combiner.
    """
    probes: list[tuple[Probe, dict[Place, list[str]]]] = []
    known = {case["name"]: case for case in catalogue.drafter_cases()}
    started: dict[str, dict[Place, list[str]]] = {}
    for place in drafted:
        for name in wanted.get(place, ()):
            if known.get(name, {}).get("engine"):
                started.setdefault(name, {})[place] = [name, f"{name}+float32"]
    for name, judged in started.items():
        place = next(iter(judged))
        plain = known[name] | {"module": catalogue.module_name(place.path)}
        for case in (plain, plain | {"name": f"{name}+float32", "inject": True}):
            probes.append((_engine(case), {p: [case["name"]] for p in judged}))
    if quantised:
        for case in _SMOKE:
            probes.append((_engine(case), {}))
    return probes


def _engine(case: dict[str, Any]) -> Probe:
    return Probe("e2e", "cpu", (case,), model_folders([case]), {}, Limits(seconds=600))


_SMOKE: tuple[dict[str, Any], ...] = (
    {"name": "plain", "target": "llama"},
    {"name": "lora", "target": "llama", "lora": True},
    {"name": "modelopt-fp8-pcpt", "target": f"llama+{QUANTIZED}"},
)
