from __future__ import annotations

from dtypefix.edits.fix_file import fix_file
from dtypefix.findings import Edit, FileResult, Finding, Fix, Span

from ..support import AMBIENT, AMBIENT_FIXED, rewrite_source


def test_a_safe_fix_is_applied_and_settles_the_file() -> None:
    fixed = rewrite_source(AMBIENT, "ambient-out-dtype")
    assert fixed.after.decode() == AMBIENT_FIXED
    assert [f.rule for f in fixed.fixed] == ["ambient-out-dtype"]
    assert not fixed.remaining.findings
    again = rewrite_source(fixed.after, "ambient-out-dtype")
    assert again.after == fixed.after
    assert not again.fixed


def test_code_that_is_nested_deeply_is_fixed_like_any_other() -> None:
    deep = f"\n\nTOTAL = {' + '.join(['1'] * 3_000)}\n"
    fixed = rewrite_source(AMBIENT + deep, "ambient-out-dtype")
    assert fixed.after.decode() == AMBIENT_FIXED + deep


def test_an_unsafe_fix_waits_until_it_is_asked_for() -> None:
    source = AMBIENT.replace(
        "        self.input_dtype", "\n    def create_weights(self):\n        self.input_dtype"
    )
    assert rewrite_source(source, "ambient-out-dtype").after.decode() == source
    assert rewrite_source(source, "ambient-out-dtype", unsafe=True).after.decode() != source


def flagging(source: bytes, word: bytes, replacement: str, level: str = "warning") -> FileResult:
    """Report every occurrence of a word, fixed by replacing it."""
    findings = []
    at = source.find(word)
    while at >= 0:
        span = Span(at, at + len(word), 1, 1, 1, 2)
        fix = Fix("safe", "t", (Edit(at, at + len(word), replacement),))
        findings.append(Finding("r", "core", level, "f.py", span, "", "m", (), f"{word!r}", fix))  # type: ignore[arg-type]
        at = source.find(word, at + 1)
    return FileResult("f.py", tuple(findings))


def test_a_fix_that_breaks_the_file_leaves_it_as_it_was() -> None:
    fixed = fix_file("f.py", b"x = old\n", lambda s: flagging(s, b"old", "(new"), {"safe"})
    assert fixed.after == fixed.before
    assert fixed.problem is not None
    assert "would not parse" in fixed.problem.reason
    assert not fixed.fixed


def test_a_fix_that_does_not_settle_its_finding_leaves_the_file_as_it_was() -> None:
    fixed = fix_file("f.py", b"x = old\n", lambda s: flagging(s, b"old", "older"), {"safe"})
    assert fixed.after == fixed.before
    assert fixed.problem is not None
    assert "does not settle" in fixed.problem.reason


def test_notes_are_never_rewritten() -> None:
    fixed = fix_file("f.py", b"x = old\n", lambda s: flagging(s, b"old", "new", "note"), {"safe"})
    assert fixed.after == fixed.before
    assert fixed.problem is None


def test_overlapping_fixes_are_applied_in_later_rounds() -> None:
    def examine(source: bytes) -> FileResult:
        found = [*flagging(source, b"a1", "b").findings, *flagging(source, b"12", "c").findings]
        return FileResult("f.py", tuple(found))

    fixed = fix_file("f.py", b"x = a12\n", examine, {"safe"})
    assert fixed.after == b"x = b2\n"
    assert not fixed.deferred


def test_a_comment_inside_what_would_be_replaced_is_kept_and_the_fix_withheld() -> None:
    source = AMBIENT.replace(
        "torch.get_default_dtype()", "torch.get_default_dtype(  # float32 at first\n        )"
    )
    fixed = rewrite_source(source, "ambient-out-dtype")
    assert fixed.after.decode() == source
    (finding,) = fixed.remaining.findings
    assert finding.unfixed_reason == "a comment stands inside the code that the fix would replace"
