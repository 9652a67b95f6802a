"""Each kind of patch, right or lying, gets its verdict from what the probes saw."""

from __future__ import annotations

from typing import Any

import pytest

from dtypefix.validate.judging import judge_e2e, judge_flip, judge_lora, judge_model, unreached
from dtypefix.validate.verdict import Judgement, Place, Reason, Verdict

from .outcomes import FLIPPED, MIXED, PLACE, error, fails, flip, flips, model, ok

BROKEN = model(ok(), fails())
FIXED = model(ok(), ok())


def judged(base: dict[str, Any], patched: dict[str, Any], place: Place = PLACE) -> Judgement:
    judgement = judge_model(place, "case", base, patched)
    assert judgement is not None
    return judgement


def test_a_repair_is_shown_by_the_fault_before_and_equal_results_after() -> None:
    judgement = judged(BROKEN, FIXED)
    assert judgement.verdict is Verdict.VALIDATED
    assert MIXED in judgement.before
    assert "vllm/layers/linear.py:400" in judgement.before


def test_an_empty_patch_is_not_a_fix() -> None:
    judgement = judged(BROKEN, BROKEN)
    assert (judgement.verdict, judgement.reason) == (Verdict.REPRODUCED_NOT_FIXED, Reason.STILL_FAILS)


def test_a_cast_behind_the_norm_gives_other_bits_and_is_not_a_fix() -> None:
    judgement = judged(BROKEN, model(ok(), ok("rounded later")))
    assert (judgement.verdict, judgement.reason) == (Verdict.REPRODUCED_NOT_FIXED, Reason.CAST_TOO_LATE)


def test_a_patch_that_fixes_one_of_two_dtypes_is_not_a_fix() -> None:
    patched = model(ok(), ok())
    patched["runs"]["float16"] = fails()
    assert judged(BROKEN, patched).verdict is Verdict.REPRODUCED_NOT_FIXED


def test_a_changed_control_fails() -> None:
    judgement = judged(BROKEN, model(ok("other"), ok("other")))
    assert (judgement.verdict, judgement.reason) == (Verdict.CONTROL_FAILED, Reason.CONTROL_DIFFERS)


def test_a_control_that_stops_working_fails() -> None:
    patched = model(fails("no such attribute", kind="AttributeError"), ok())
    judgement = judged(BROKEN, patched)
    assert (judgement.verdict, judgement.reason) == (Verdict.CONTROL_FAILED, Reason.CONTROL_RAISES)


def test_a_patch_that_cannot_be_built_any_more_fails() -> None:
    judgement = judged(BROKEN, {"stage": "build", "error": error("boom")})
    assert judgement.verdict is Verdict.CONTROL_FAILED


def test_reading_a_config_where_none_is_set_fails() -> None:
    judgement = judged(BROKEN, model(ok(), ok(), needs_config=True))
    assert judgement.verdict is Verdict.CONTROL_FAILED
    assert "config" in judgement.detail


def test_needing_a_config_is_no_failure_where_the_base_needed_it_too() -> None:
    base = model(ok(), fails(), needs_config=True)
    assert judged(base, model(ok(), ok(), needs_config=True)).verdict is Verdict.VALIDATED


def test_a_base_without_the_fault_claims_nothing() -> None:
    judgement = judged(FIXED, FIXED)
    assert (judgement.verdict, judgement.reason) == (Verdict.NOT_REPRODUCED, Reason.BASE_PASSES)


def test_a_quantised_control_that_the_patch_breaks_fails() -> None:
    assert judged(FIXED, model(ok("packed"), ok("packed"))).verdict is Verdict.CONTROL_FAILED
    assert judged(FIXED, model(ok(), fails("boom"))).verdict is Verdict.CONTROL_FAILED


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("shape '[4, 8]' is invalid for input of size 12", "RuntimeError", Reason.OTHER_ERROR),
        ("No module named 'gguf'", "ModuleNotFoundError", Reason.DEPENDENCY_MISSING),
        ("'_OpNamespace' '_C' object has no attribute 'rms_norm'", "AttributeError", Reason.OP_MISSING),
        ("MLA is not supported on CPU.", "NotImplementedError", Reason.UNSUPPORTED),
        ("undefined symbol: _ZNR5torch7Library4_def", "ImportError", Reason.ABI_MISMATCH),
    ],
)
def test_another_error_is_not_the_fault(text: str, kind: str, reason: Reason) -> None:
    judgement = judged(model(ok(), fails(text, kind=kind)), FIXED)
    assert (judgement.verdict, judgement.reason) == (Verdict.NOT_VALIDATED, reason)


def test_the_dtype_error_of_another_place_is_not_this_places_fault() -> None:
    elsewhere = Place("vllm/models/other.py", 5, "unguarded-combiner", "Other.combine")
    assert judged(model(ok(), fails(at=elsewhere)), FIXED).verdict is Verdict.NOT_VALIDATED


def test_a_case_that_never_ran_the_line_says_nothing() -> None:
    base = model(ok(), fails(), covered=[[PLACE.path, PLACE.line + 1]])
    assert judge_model(PLACE, "case", base, FIXED) is None


@pytest.mark.parametrize("reason", ["TIME_LIMIT", "MEMORY_LIMIT", "CRASH"])
@pytest.mark.parametrize("tree", ["base", "patched"])
def test_a_process_that_did_not_live_gives_its_reason(reason: str, tree: str) -> None:
    dead = {"stopped": reason, "detail": "it ended"}
    judgement = judged(dead, FIXED) if tree == "base" else judged(BROKEN, dead)
    assert (judgement.verdict, judgement.reason) == (Verdict.NOT_VALIDATED, Reason[reason])
    assert tree in judgement.detail


def test_a_class_that_cannot_be_built_on_the_base_names_the_error() -> None:
    base = {"stage": "config", "error": error("Model Runner V1 does not support: this", kind="ValueError")}
    judgement = judged(base, base)
    assert judgement.verdict is Verdict.NOT_VALIDATED
    assert "Model Runner V1" in judgement.detail


def test_a_scheme_that_stops_following_the_default_is_shown() -> None:
    judgement = judge_flip(FLIPPED, "case", flips(True), flips(False))
    assert judgement is not None
    assert judgement.verdict is Verdict.VALIDATED
    assert "float32/bfloat16/float16" in judgement.before
    assert "bfloat16/bfloat16/bfloat16" in judgement.after
    assert "real output" in judgement.detail


def test_propagated_dtypes_are_not_called_executed() -> None:
    judgement = judge_flip(FLIPPED, "case", flips(True, executed=False), flips(False, executed=False))
    assert judgement is not None
    assert "no kernel executed" in judgement.detail


def test_an_attribute_without_an_output_is_called_that() -> None:
    judgement = judge_flip(FLIPPED, "case", flips(True, outputs=False), flips(False, outputs=False))
    assert judgement is not None
    assert judgement.verdict is Verdict.VALIDATED
    assert "attribute only" in judgement.detail


def test_a_scheme_left_out_of_the_rewrite_stays_reproduced() -> None:
    judgement = judge_flip(FLIPPED, "case", flips(True), flips(True))
    assert judgement is not None
    assert (judgement.verdict, judgement.reason) == (Verdict.REPRODUCED_NOT_FIXED, Reason.STILL_FOLLOWS)


def test_an_attribute_pinned_to_the_wrong_dtype_is_not_a_fix() -> None:
    patched = flips(False)
    for run in patched["flips"].values():
        run["attributes"]["Concrete.out_dtype"] = "float32"
    judgement = judge_flip(FLIPPED, "case", flips(True), patched)
    assert judgement is not None
    assert judgement.verdict is Verdict.REPRODUCED_NOT_FIXED


def test_an_output_that_still_follows_the_default_is_not_a_fix() -> None:
    patched = flips(False)
    patched["flips"]["float32"]["output"] = "float32"
    judgement = judge_flip(FLIPPED, "case", flips(True), patched)
    assert judgement is not None
    assert judgement.verdict is Verdict.REPRODUCED_NOT_FIXED


def test_a_scheme_with_another_output_under_its_own_dtype_fails() -> None:
    patched = flips(False)
    patched["flips"]["bfloat16"]["digest"] = "other"
    judgement = judge_flip(FLIPPED, "case", flips(True), patched)
    assert judgement is not None
    assert judgement.verdict is Verdict.CONTROL_FAILED


def test_the_attribute_of_another_class_does_not_count() -> None:
    base = flips(True)
    for run in base["flips"].values():
        run["owners"] = {"Concrete": ["Concrete", "object"]}
    judgement = judge_flip(FLIPPED, "case", base, flips(False))
    assert judgement is not None
    assert (judgement.verdict, judgement.reason) == (Verdict.NOT_VALIDATED, Reason.NOT_REACHED)


def test_a_scheme_that_never_followed_the_default_claims_nothing() -> None:
    judgement = judge_flip(FLIPPED, "case", flips(False), flips(False))
    assert judgement is not None
    assert judgement.verdict is Verdict.NOT_REPRODUCED


def test_a_scheme_that_never_runs_the_line_says_nothing() -> None:
    base = flips(True)
    for run in base["flips"].values():
        run["covered"] = []
    assert judge_flip(FLIPPED, "case", base, flips(False)) is None


def test_a_scheme_without_a_kernel_is_not_validated() -> None:
    stopped = error("Failed to find a kernel that can implement the layer", kind="ValueError")
    base, patched = flips(True, outputs=False), flips(False, outputs=False)
    for outcome in (base, patched):
        for run in outcome["flips"].values():
            run |= {"stage": "construct", "error": stopped}
    judgement = judge_flip(FLIPPED, "case", base, patched)
    assert judgement is not None
    assert (judgement.verdict, judgement.reason) == (Verdict.NOT_VALIDATED, Reason.NO_KERNEL)


def test_a_scheme_that_the_platform_refuses_does_not_apply() -> None:
    refused = {"error": error("modelopt quantization is currently not supported in rocm.", kind="ValueError")}
    assert unreached("case", refused).verdict is Verdict.NOT_APPLICABLE
    assert unreached("case", {"error": error("boom")}).verdict is Verdict.NOT_VALIDATED
    assert unreached("case", {"flips": {"float32": flip("float32")}}).reason is Reason.NOT_REACHED


def engine(**more: Any) -> dict[str, Any]:
    return {"injected": False, "tokens": [[1, 2]], "logprobs": [[-0.5, -0.25]], "combined": 2, **more}


def test_an_injected_fault_that_the_engine_survives_is_shown() -> None:
    base = {"injected": True, "error": error(MIXED)}
    judgement = judge_e2e(PLACE, "case", base, engine(injected=True))
    assert judgement.verdict is Verdict.VALIDATED
    assert judge_e2e(PLACE, "case", base, base).verdict is Verdict.REPRODUCED_NOT_FIXED


@pytest.mark.parametrize("changed", [{"tokens": [[1, 3]]}, {"logprobs": [[-0.5, -0.3]]}])
def test_other_tokens_fail_the_control(changed: dict[str, Any]) -> None:
    assert judge_e2e(PLACE, "case", engine(), engine(**changed)).verdict is Verdict.CONTROL_FAILED


def test_equal_tokens_prove_no_repair() -> None:
    assert judge_e2e(PLACE, "case", engine(), engine()).verdict is Verdict.NOT_REPRODUCED


def test_an_engine_that_does_not_start_on_the_base_proves_nothing() -> None:
    base = {"injected": False, "error": error("No module named 'gguf'", kind="ModuleNotFoundError")}
    judgement = judge_e2e(PLACE, "case", base, engine())
    assert (judgement.verdict, judgement.reason) == (Verdict.NOT_VALIDATED, Reason.DEPENDENCY_MISSING)


def shrink(float32: dict[str, Any], bfloat16: dict[str, Any] | None = None) -> dict[str, Any]:
    covered = {"covered": [[FLIPPED.path, FLIPPED.line]]}
    good = {"stage": "done", "output": "bfloat16", "digest": "same"}
    return {
        "model_dtype": "bfloat16",
        "runs": {"bfloat16": (bfloat16 or good) | covered, "float32": float32 | covered},
    }


ASSERTED = error("AssertionError()", kind="AssertionError", source="assert inputs.dtype == weights[0].dtype")


def test_the_symptom_is_shown_by_its_assertion_before_and_the_kernel_after() -> None:
    base = shrink({"stage": "shrink", "output": "float32", "error": ASSERTED})
    judgement = judge_lora(
        FLIPPED, "case", base, shrink({"stage": "done", "output": "bfloat16", "digest": "same"})
    )
    assert judgement is not None
    assert judgement.verdict is Verdict.VALIDATED
    assert "assert inputs.dtype" in judgement.before
    stays = judge_lora(FLIPPED, "case", base, base)
    assert stays is not None
    assert stays.verdict is Verdict.REPRODUCED_NOT_FIXED


def test_an_assertion_about_something_else_is_not_the_symptom() -> None:
    other = error("AssertionError()", kind="AssertionError", source="assert inputs.is_contiguous()")
    base = shrink({"stage": "shrink", "output": "float32", "error": other})
    judgement = judge_lora(FLIPPED, "case", base, base)
    assert judgement is not None
    assert judgement.verdict is Verdict.NOT_VALIDATED
