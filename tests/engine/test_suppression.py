from __future__ import annotations

from pathlib import Path

import pytest

from dtypefix.api import InputFile, Options, Roots, scan

from ..support import AMBIENT, AMBIENT_FIXED, rewrite_source, scan_source

RULE = "ambient-out-dtype"
LINE = "        self.out_dtype = torch.get_default_dtype()\n"


def with_comment(comment: str) -> str:
    return AMBIENT.replace(LINE, LINE.rstrip("\n") + comment + "\n")


@pytest.mark.parametrize(
    "source",
    [
        with_comment(f"  # dtypefix: ignore[{RULE}] float32 is wanted here"),
        with_comment(f"  # dtypefix: ignore[{RULE}, unguarded-combiner] both"),
        with_comment(f"  # noqa: E501 # dtypefix: ignore[{RULE}] with another tool's comment"),
        AMBIENT.replace(LINE, f"        # dtypefix: ignore[{RULE}] the line below\n{LINE}"),
        AMBIENT.replace(LINE, f"        # dtypefix: ignore[{RULE}] the line below\n        # more\n{LINE}"),
        f"# dtypefix: file-ignore[{RULE}] a test bench\n" + AMBIENT,
        with_comment(f"  # dtypefix: ignore[unguarded-combiner] one # dtypefix: ignore[{RULE}] another"),
        with_comment(f"  # dtypefix: ignore[{RULE}] #48861 keeps it # noqa"),
    ],
)
def test_a_comment_with_a_reason_silences_and_is_never_rewritten(source: str) -> None:
    result = scan_source(source, RULE)
    assert not result.findings
    assert [f.rule for f in result.suppressed] == [RULE]
    assert rewrite_source(source, RULE).after == source.encode()


def test_a_comment_in_a_string_is_no_comment() -> None:
    source = AMBIENT.replace(LINE, LINE + f'        self.doc = "# dtypefix: ignore[{RULE}] no"\n')
    assert [f.rule for f in scan_source(source, RULE).findings] == [RULE]


def test_a_comment_on_another_line_silences_nothing_and_is_called_unused() -> None:
    source = f"# dtypefix: ignore[{RULE}] far away\n" + AMBIENT
    rules = [(f.rule, f.span.line) for f in scan_source(source, RULE).findings]
    assert rules == [("ignore-comment", 1), (RULE, 9)]


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        (f"  # dtypefix: ignore[{RULE}]", "gives a reason"),
        ("  # dtypefix: ignore[no-such-rule] because", "unknown rule 'no-such-rule'"),
        ("  # dtypefix: ignore", "names the rules"),
    ],
)
def test_a_faulty_comment_is_not_obeyed_and_is_reported(comment: str, message: str) -> None:
    findings = scan_source(with_comment(comment), RULE).findings
    assert {f.rule for f in findings} == {RULE, "ignore-comment"}
    assert any(message in f.message for f in findings)


def test_a_comment_for_a_rule_that_did_not_run_is_not_called_unused() -> None:
    source = "import torch  # dtypefix: ignore[unguarded-combiner] elsewhere\nget_default_dtype = 1\n"
    assert not scan_source(source, RULE).findings


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"x = 1  # dtypefix: ignore[{RULE}] stale\n", "x = 1\n"),
        (f"# dtypefix: ignore[{RULE}] stale\nx = 1\n", "x = 1\n"),
        (f"x = 1  # dtypefix: ignore[{RULE}] stale # noqa\n", "x = 1  # noqa\n"),
        (f"x = 1  # dtypefix: ignore[{RULE}] stale, see #48861\n", "x = 1\n"),
        ("x = 1  # dtypefix: ignore[no-such-rule] stale\n", "x = 1\n"),
    ],
)
def test_an_unused_comment_is_removed_by_its_fix(before: str, after: str) -> None:
    assert rewrite_source(before, RULE).after.decode() == after


@pytest.mark.parametrize(
    ("comment", "mended"),
    [
        (f"  # dtypefix: ignore[{RULE}]", ""),
        ("  # dtypefix: ignore", ""),
        ("  # dtypefix: ignore float32 is wanted", f"  # dtypefix: ignore[{RULE}] float32 is wanted"),
    ],
)
def test_what_its_author_meant_is_guessed_only_on_request(comment: str, mended: str) -> None:
    source = with_comment(comment)
    assert comment + "\n" in rewrite_source(source, "ignore-comment").after.decode()
    (finding,) = [f for f in scan_source(source, RULE).findings if f.rule == "ignore-comment"]
    assert finding.fix is not None
    assert finding.fix.applicability == "unsafe"
    assert [edit.replacement for edit in finding.fix.edits] == [mended.strip()]


def test_a_misspelled_rule_is_told_the_nearest() -> None:
    findings = scan_source(with_comment("  # dtypefix: ignore[ambient-out-dtyp] why"), RULE).findings
    assert any(f"did you mean '{RULE}'?" in f.message for f in findings)


def test_nothing_is_said_of_comments_when_that_is_not_wanted() -> None:
    source = with_comment(f"  # dtypefix: ignore[{RULE}] fine") + "x = 1  # dtypefix: ignore[nope] no\n"
    file = InputFile("case.py", Path("/nowhere/case.py"), source.encode())
    options = Options(select=(RULE,), ignore=("ignore-comment",))
    (result,) = scan([file], options, Roots((Path("/nowhere"),), Path("/nowhere")))
    assert (len(result.findings), len(result.suppressed)) == (0, 1)


def test_one_unused_rule_of_two_is_taken_out_of_the_comment() -> None:
    source = with_comment(f"  # dtypefix: ignore[{RULE}, unguarded-combiner] wanted")
    fixed = rewrite_source(source, RULE, "unguarded-combiner").after.decode()
    assert fixed == with_comment(f"  # dtypefix: ignore[{RULE}] wanted")
    assert fixed != AMBIENT_FIXED
