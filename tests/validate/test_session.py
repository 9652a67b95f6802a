"""The run from probes to rows, with a stand-in for the runtime's interpreter that says what it is told to."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dtypefix.validate.jobs import Request
from dtypefix.validate.runner import Cancelled, Limits, Runner
from dtypefix.validate.runtime import Runtime
from dtypefix.validate.session import Validation, validate
from dtypefix.validate.trees import find_trees
from dtypefix.validate.verdict import Place, Reason, Tier, Verdict

from .outcomes import error, model, ok
from .trees import tree

REGISTRY = """\
_MODELS = {
    "FirstModel": ("heads", "Eagle3LlamaForCausalLM"),
    "OtherModel": ("vllm.models.twin", "UnheardOf"),
}
"""
HEADS = "class Eagle3LlamaForCausalLM:\n    def combine_hidden_states(self, x):\n        return x\n"
PATH = "vllm/model_executor/models/heads.py"
HERE = Place(PATH, 3, "unguarded-combiner", "Eagle3LlamaForCausalLM.combine_hidden_states")
FILES = {"vllm/model_executor/models/registry.py": REGISTRY, PATH: HEADS}

# What stands in for the interpreter: for each case it writes an outcome, or does what the outcome names.
FAKE = """\
#!{python}
import json, os, signal, sys, time
request = json.load(open(sys.argv[-1]))
script = json.load(open({script!r}))
which = "patched" if "patched" in open(os.path.join(request["root"], "vllm", "mark.py")).read() else "base"
open({pids!r}, "a").write(str(os.getpid()) + "\\n")
said = {{"facts": {{"vllm": "0"}}, "cases": {{}}, "running": None, "done": False}}
def write():
    open(request["result"] + "x", "w").write(json.dumps(said))
    os.replace(request["result"] + "x", request["result"])
for case in request["cases"]:
    said["running"] = case["name"]
    write()
    outcome = script[which].get(case["name"], script[which]["*"])
    if outcome == "crash": os.kill(os.getpid(), signal.SIGSEGV)
    if outcome == "hang": time.sleep(600)
    said["cases"][case["name"]] = outcome
    said["running"] = None
    write()
said["done"] = True
write()
"""

BROKEN = model(ok(), {"error": error("expected m1 and m2 to have the same dtype", at=HERE)})
BROKEN["covered"] = [[HERE.path, HERE.line]]
FIXED = model(ok(), ok())
Run = Callable[[Mapping[str, Mapping[str, Any]]], Validation]


class Bench:
    """Two small trees and a runtime that is a script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        base = tree(folder / "base", {**FILES, "vllm/mark.py": ""})
        patched = tree(folder / "patched", {**FILES, "vllm/mark.py": "patched = 1\n"})
        self.trees = find_trees(patched, str(base), folder / "scratch")
        self.script, self.pids = folder / "script.json", folder / "pids"
        self.pids.touch()
        self.python = folder / "python"
        self.python.write_text(
            FAKE.format(python=sys.executable, script=str(self.script), pids=str(self.pids))
        )
        self.python.chmod(self.python.stat().st_mode | stat.S_IXUSR)

    def request(self, seconds: float = 60.0) -> Request:
        return Request(
            self.trees,
            (HERE,),
            {"unguarded-combiner": ("model",)},
            Runtime(self.python, "3", "2", None, ""),
            self.folder / "overlays",
            platforms=("cpu",),
            tiers=frozenset({Tier.MODEL}),
            limits=Limits(seconds=seconds),
        )

    def says(self, base: Mapping[str, Any], patched: Mapping[str, Any]) -> None:
        self.script.write_text(json.dumps({"base": base, "patched": patched}))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_repair_is_shown_on_both_trees(bench: Bench) -> None:
    bench.says({"*": BROKEN}, {"*": FIXED})
    (row,) = validate(bench.request()).rows
    assert (row.verdict, row.platform, row.tier) == (Verdict.VALIDATED, "cpu", Tier.MODEL)
    assert len(row.behind) > 1


def test_a_crash_costs_its_own_case_alone(bench: Bench) -> None:
    bench.says({"*": BROKEN, "eagle3-llama": "crash"}, {"*": FIXED})
    (row,) = validate(bench.request()).rows
    by_case = {judgement.case: judgement for judgement in row.behind}
    assert by_case["eagle3-llama"].reason is Reason.CRASH
    assert "SIGSEGV" in by_case["eagle3-llama"].detail
    assert by_case["eagle3-llama-norm"].verdict is Verdict.VALIDATED
    assert row.verdict is Verdict.VALIDATED


def test_a_tree_whose_every_case_crashes_is_not_validated(bench: Bench) -> None:
    bench.says({"*": "crash"}, {"*": FIXED})
    (row,) = validate(bench.request()).rows
    assert (row.verdict, row.judgement.reason) == (Verdict.NOT_VALIDATED, Reason.CRASH)


def test_a_hang_is_a_verdict(bench: Bench) -> None:
    bench.says({"*": BROKEN, "eagle3-llama": "hang"}, {"*": FIXED})
    (row,) = validate(bench.request(seconds=2)).rows
    by_case = {judgement.case: judgement for judgement in row.behind}
    assert by_case["eagle3-llama"].reason is Reason.TIME_LIMIT
    assert by_case["eagle3-llama-norm"].verdict is Verdict.VALIDATED


def test_an_interpreter_that_says_nothing_is_a_verdict(bench: Bench) -> None:
    bench.says({"*": BROKEN}, {"*": FIXED})
    bench.python.write_text("#!/bin/sh\necho no luck\nexit 7\n")
    (row,) = validate(bench.request()).rows
    assert (row.verdict, row.judgement.reason) == (Verdict.NOT_VALIDATED, Reason.CRASH)
    assert "no luck" in row.judgement.detail


def test_a_rule_without_a_probe_is_not_validated(bench: Bench) -> None:
    request = bench.request()
    bare = Request(
        request.trees,
        request.places,
        {"unguarded-combiner": ()},
        request.runtime,
        request.cache,
        platforms=("cpu",),
    )
    (row,) = validate(bare).rows
    assert (row.verdict, row.judgement.reason) == (Verdict.NOT_VALIDATED, Reason.NO_PROBE)
    assert bench.pids.read_text() == ""


def test_a_class_no_one_knows_how_to_build_is_not_validated(bench: Bench) -> None:
    bench.says({"*": BROKEN}, {"*": FIXED})
    elsewhere = Place("vllm/mark.py", 1, "unguarded-combiner")
    request = bench.request()
    unknown = Request(
        request.trees,
        (elsewhere,),
        request.probes,
        request.runtime,
        request.cache,
        platforms=("cpu",),
        tiers=request.tiers,
    )
    (row,) = validate(unknown).rows
    assert (row.verdict, row.judgement.reason) == (Verdict.NOT_VALIDATED, Reason.NO_CONFIG)


def test_an_interruption_leaves_no_probe_behind(bench: Bench) -> None:
    bench.says({"*": "hang"}, {"*": "hang"})
    runner = Runner()
    raised: list[BaseException] = []

    def work() -> None:
        try:
            validate(bench.request(seconds=600), runner)
        except Cancelled as cancelled:
            raised.append(cancelled)

    thread = threading.Thread(target=work)
    thread.start()
    deadline = time.monotonic() + 60
    while len(bench.pids.read_text().split()) < 2 and time.monotonic() < deadline:
        thread.join(0.05)
    runner.cancel()
    thread.join(60)
    assert len(raised) == 1
    started = [int(pid) for pid in bench.pids.read_text().split()]
    assert len(started) == 2
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
