"""The scorer of the fix history and the sampler of findings, on small cases made up here."""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "history"


@pytest.fixture(scope="module")
def history() -> dict[str, ModuleType]:
    sys.path.insert(0, str(FOLDER))
    try:
        return {name: importlib.import_module(name) for name in ("corpus", "score", "precision")}
    finally:
        sys.path.remove(str(FOLDER))


def finding(rule: str, line: int, symbol: str = "f", path: str = "vllm/a.py", length: int = 0) -> dict:
    return {
        "rule": rule,
        "level": "warning",
        "path": path,
        "line": line,
        "end_line": line + length,
        "symbol": symbol,
        "message": "",
        "fingerprint": f"{rule}{path}{line}",
    }


ROW = {
    "id": "F1",
    "event": "E1",
    "family": "LINGUARD",
    "rule": "unguarded-linear-input",
    "project": "vllm",
    "version_before": "1.0",
    "version_after": "2.0",
    "path_before": "vllm/a.py",
    "path_after": "vllm/a.py",
    "symbol": "Model.forward",
    "symbol_after": "Model.forward",
    "line": 10,
    "end_line": 12,
    "line_after": 11,
    "evidence": "local",
}


@pytest.mark.parametrize(
    ("reported", "detected"),
    [
        (finding("unguarded-linear-input", 8), True),
        (finding("unguarded-linear-input", 14), True),
        (finding("unguarded-combiner", 11), True),
        (finding("unguarded-linear-input", 400, "Model.forward"), True),
        (finding("unguarded-linear-input", 400, "forward"), True),
        (finding("unguarded-linear-input", 7), False),
        (finding("unguarded-linear-input", 15), False),
        (finding("hard-coded-half", 11), False),
        (finding("unguarded-linear-input", 400, "Other.backward"), False),
        (finding("unguarded-linear-input", 400, ""), False),
    ],
)
def test_a_row_is_detected_near_its_lines_or_in_its_symbol_by_its_rule(history, reported, detected) -> None:
    assert bool(history["score"].hits([reported], ROW)) is detected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([finding("unguarded-linear-input", 11, "Model.forward")], [], (True, True)),
        (
            [finding("unguarded-linear-input", 11, "Model.forward")],
            [finding("unguarded-linear-input", 90, "Model.forward")],
            (True, False),
        ),
        (
            [finding("unguarded-linear-input", 11, "Model.forward")],
            [finding("unguarded-linear-input", 90, "Other.forward_late")],
            (True, True),
        ),
        ([finding("hard-coded-half", 11, "Model.forward")], [], (False, False)),
        ([], [], (False, False)),
    ],
)
def test_a_row_is_confirmed_when_its_finding_is_gone_after_the_repair(
    history, before, after, expected
) -> None:
    found = {"vllm-1.0": {"vllm/a.py": before}, "vllm-2.0": {"vllm/a.py": after}}
    ((_, detected, confirmed),) = history["score"].score([ROW], found)
    assert (detected, confirmed) == expected


def test_rows_of_releases_that_are_not_there_are_not_scored(history) -> None:
    assert history["score"].score([ROW], {"vllm-1.0": {}}) == []


def test_the_history_is_well_formed(history) -> None:
    fixes = history["corpus"].load(FOLDER / "fixes.jsonl")
    negatives = history["corpus"].load(FOLDER / "negatives.jsonl")
    assert {key for row in fixes for key in ROW} <= set(fixes[0])
    assert all(row["line"] <= row["end_line"] for row in fixes)
    assert all(row["reason"] for row in negatives)
    for rows in (fixes, negatives):
        assert max(Counter(row["id"] for row in rows).values()) == 1


def test_a_sample_gives_each_rule_its_share_and_leaves_none_out(history) -> None:
    findings = [finding("common", n) for n in range(90)] + [finding("rare", n) for n in range(2)]
    sample = history["precision"].stratified(findings, 20, seed=1)
    rules = Counter(f["rule"] for f in sample)
    assert rules == {"common": 19, "rare": 1}
    assert len({f["fingerprint"] for f in sample}) == 20


def test_a_sample_depends_on_the_seed_and_not_on_the_order_of_the_findings(history) -> None:
    draw = history["precision"].stratified
    findings = [finding("a", n) for n in range(50)]
    assert draw(findings, 9, 1) == draw(findings[::-1], 9, 1)
    assert draw(findings, 9, 1) != draw(findings, 9, 2)
    assert len(draw(findings, 500, 1)) == 50


def test_agreement_counts_what_both_judged(history) -> None:
    first = {str(n): {"label": "hazard" if n < 3 else "right"} for n in range(6)}
    second = {str(n): {"label": "hazard"} for n in range(4)}
    n, same, kappa = history["precision"].agreement(first, second)
    assert (n, same) == (4, 3)
    assert kappa == pytest.approx(0.0)
    assert history["precision"].agreement(first, first)[2] == pytest.approx(1.0)


def test_merging_prints_precision_for_each_rule(history, tmp_path, capsys, monkeypatch) -> None:
    save = history["corpus"].save
    key = [{**finding("a", 1), "id": "1"}, {**finding("a", 2), "id": "2"}, {**finding("b", 3), "id": "3"}]
    labels = [
        {"id": i, "path": "vllm/a.py", "line": 1, "label": label, "reason": "read"}
        for i, label in (("1", "hazard"), ("2", "unclear"), ("3", "right"))
    ]
    for name, rows in (("key", key), ("first", labels), ("second", labels[:1])):
        save(tmp_path / f"{name}.jsonl", rows)
    arguments = [
        "precision.py",
        "merge",
        *(str(tmp_path / f"{name}.jsonl") for name in ("key", "first", "second")),
        "--out",
        str(tmp_path / "labels.jsonl"),
    ]
    monkeypatch.setattr(sys, "argv", arguments)
    history["precision"].main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:6] == ["a", "2", "1", "0", "1", "50%"]
    assert lines[2].split()[:6] == ["b", "1", "0", "1", "0", "0%"]
    assert "1 of 1 alike" in lines[-1]
    kept = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert [(row["rule"], row["label"], row["second"]) for row in kept] == [
        ("a", "hazard", "hazard"),
        ("a", "unclear", None),
        ("b", "right", None),
    ]


def test_an_unlabelled_row_is_named(history, tmp_path) -> None:
    with pytest.raises(SystemExit, match=r"vllm/a\.py:7: give a label"):
        history["precision"].judged([{"id": "1", "path": "vllm/a.py", "line": 7, "label": "", "reason": ""}])
