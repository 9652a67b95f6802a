from __future__ import annotations

import ast
import io
import json
from pathlib import Path

import pytest

from dtypefix.validate.jobs import Request
from dtypefix.validate.report import data, emit, page, table
from dtypefix.validate.runtime import Runtime
from dtypefix.validate.session import Timing, Validation
from dtypefix.validate.static import StaticReport
from dtypefix.validate.trees import find_trees
from dtypefix.validate.verdict import Judgement, Place, Reason, Row, Tier, Verdict

from .trees import tree

HEAD = Place("vllm/head.py", 17, "unguarded-combiner", "Drafter.combine_hidden_states")
SCHEME = Place("vllm/scheme.py", 4, "ambient-out-dtype", "Scheme.__init__")
ROWS = (
    Row(
        HEAD,
        "cpu",
        Tier.MODEL,
        Judgement(Verdict.VALIDATED, None, "shown", "eagle3-llama", "RuntimeError: a | b", "ok"),
    ),
    Row(SCHEME, "cpu", Tier.FLIP, Judgement(Verdict.NOT_VALIDATED, Reason.NO_KERNEL, "", "fp8-block")),
    Row(
        SCHEME,
        "rocm:gfx942",
        Tier.PLATFORM,
        Judgement(Verdict.NOT_APPLICABLE, Reason.UNSUPPORTED, "no", "fp8"),
    ),
)


@pytest.fixture
def validation(tmp_path: Path) -> Validation:
    base = tree(tmp_path / "base", {"vllm/head.py": "x = 1\n"})
    patched = tree(tmp_path / "patched", {"vllm/head.py": "x = 2\n"})
    runtime = Runtime(Path("python"), "3.11.7", "2.13.0", None, "")
    request = Request(find_trees(patched, str(base), tmp_path / "s"), (HEAD, SCHEME), {}, runtime, tmp_path)
    return Validation(
        request,
        ROWS,
        {"model/cpu": {"vllm": "0.31.2", "hardware": "a processor"}},
        (Timing("model/cpu", "base", 4.0, 1 << 30),),
        StaticReport(1, "ruff with the tree's settings", {}),
        ("plain: 16 tokens, the same before and after",),
        ("no device",),
        9.0,
    )


def test_the_json_rows_say_what_the_verdict_is_about(validation: Validation) -> None:
    out = io.StringIO()
    data.write(validation, out)
    said = json.loads(out.getvalue())
    first = said["rows"][0]
    assert {key: first[key] for key in ("path", "line", "rule", "platform", "tier", "verdict", "reason")} == {
        "path": "vllm/head.py",
        "line": 17,
        "rule": "unguarded-combiner",
        "platform": "cpu",
        "tier": "model",
        "verdict": "VALIDATED",
        "reason": None,
    }
    assert said["rows"][1]["reason"] == "no kernel for this scheme on this platform"
    assert {row["verdict"] for row in said["rows"]} <= {verdict.value for verdict in Verdict}
    assert said["exit_status"] == 3


def test_the_table_names_every_place_verdict_and_reason(validation: Validation) -> None:
    out = io.StringIO()
    table.write(validation, out)
    text = out.getvalue()
    for expected in (
        "vllm/head.py:17",
        "VALIDATED",
        "before: RuntimeError: a | b",
        "NOT APPLICABLE",
        "fp8-block: no kernel for this scheme",
        "end to end: plain: 16 tokens",
        "note: no device",
        "2 places, 2 shown on some platform",
    ):
        assert expected in text


def test_the_page_holds_the_verdicts_the_errors_the_gaps_and_the_change(validation: Validation) -> None:
    out = io.StringIO()
    page.write(validation, out)
    text = out.getvalue()
    assert "before: RuntimeError: a | b" in text
    assert "+x = 2" in text
    gaps = text.partition("## What was not shown")[2].partition("## How it was run")[0]
    assert "vllm/scheme.py:4" in gaps
    assert "no device" in gaps
    assert "vllm/head.py:17" not in gaps
    assert "a processor" in text
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) == len(ROWS)
    assert all(line.replace("\\|", "").count("|") == 7 for line in rows)


def test_the_emitted_test_builds_what_was_shown_and_nothing_else() -> None:
    text = emit.emitted(ROWS)
    ast.parse(text)
    assert "LlamaForCausalLMEagle3" in text
    assert "combine_hidden_states" in text
    assert "test_output_dtype" not in text


def test_schemes_that_were_shown_are_emitted_too() -> None:
    shown = Row(SCHEME, "cpu", Tier.FLIP, Judgement(Verdict.VALIDATED, None, "", "modelopt-fp8"))
    text = emit.emitted([shown])
    ast.parse(text)
    assert "FP8" in text
    assert "test_drafter" not in text


def test_nothing_shown_is_no_test() -> None:
    assert emit.emitted(ROWS[1:]) == ""
    elsewhere = Row(HEAD, "cuda", Tier.MODEL, ROWS[0].judgement)
    assert emit.emitted([elsewhere]) == ""
