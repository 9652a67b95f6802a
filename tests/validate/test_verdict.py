from __future__ import annotations

import itertools

import pytest

from dtypefix.validate.verdict import (
    PRECEDENCE,
    Judgement,
    Place,
    Row,
    Tier,
    Verdict,
    exit_status,
    overall,
    weigh,
)

HERE = Place("vllm/a.py", 3, "rule", "A.f")
THERE = Place("vllm/b.py", 9, "rule", "B.f")


def row(verdict: Verdict, place: Place = HERE, platform: str = "cpu") -> Row:
    return Row(place, platform, Tier.MODEL, Judgement(verdict))


def test_the_six_verdicts_are_spelled_as_reports_promise() -> None:
    assert [verdict.value for verdict in Verdict] == [
        "VALIDATED",
        "REPRODUCED-NOT-FIXED",
        "NOT REPRODUCED",
        "CONTROL FAILED",
        "NOT APPLICABLE",
        "NOT VALIDATED",
    ]
    assert set(PRECEDENCE) == set(Verdict)


@pytest.mark.parametrize("other", list(Verdict))
def test_a_changed_control_is_never_outvoted(other: Verdict) -> None:
    judgements = [Judgement(other), Judgement(Verdict.CONTROL_FAILED)]
    assert weigh(judgements).verdict is Verdict.CONTROL_FAILED
    assert weigh(judgements[::-1]).verdict is Verdict.CONTROL_FAILED


def test_a_case_that_could_not_run_does_not_undo_a_proof() -> None:
    judgements = [
        Judgement(Verdict.NOT_VALIDATED),
        Judgement(Verdict.VALIDATED),
        Judgement(Verdict.NOT_REPRODUCED),
    ]
    assert weigh(judgements).verdict is Verdict.VALIDATED


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        ([Verdict.VALIDATED], 0),
        ([Verdict.NOT_APPLICABLE], 0),
        ([Verdict.VALIDATED, Verdict.NOT_APPLICABLE], 0),
        ([Verdict.NOT_VALIDATED], 3),
        ([Verdict.NOT_REPRODUCED], 3),
        ([Verdict.REPRODUCED_NOT_FIXED], 1),
        ([Verdict.CONTROL_FAILED], 1),
        ([Verdict.VALIDATED, Verdict.CONTROL_FAILED], 1),
        ([Verdict.NOT_VALIDATED, Verdict.REPRODUCED_NOT_FIXED], 1),
    ],
)
def test_exit_status_of_one_place(verdicts: list[Verdict], status: int) -> None:
    assert exit_status([row(verdict) for verdict in verdicts]) == status


def test_one_place_shown_does_not_excuse_another() -> None:
    assert exit_status([row(Verdict.VALIDATED), row(Verdict.NOT_VALIDATED, THERE)]) == 3


def test_a_platform_asked_for_by_name_must_be_shown_itself() -> None:
    rows = [row(Verdict.VALIDATED), row(Verdict.NOT_VALIDATED, platform="cuda:sm_90")]
    assert exit_status(rows) == 0
    assert exit_status(rows, per_platform=True) == 3
    assert overall(rows, per_platform=True)[HERE, "cuda:sm_90"] is Verdict.NOT_VALIDATED


def test_a_failure_on_one_platform_fails_the_run() -> None:
    rows = [row(Verdict.VALIDATED), row(Verdict.CONTROL_FAILED, platform="rocm:gfx942")]
    assert exit_status(rows) == 1


def test_the_order_of_rows_never_matters() -> None:
    rows = [
        row(verdict, place)
        for verdict, place in itertools.product(list(Verdict)[:1] + list(Verdict)[4:], (HERE, THERE))
    ]
    assert {exit_status(order) for order in itertools.permutations(rows)} == {0}
