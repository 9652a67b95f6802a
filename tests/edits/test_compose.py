from __future__ import annotations

from dataclasses import replace

from dtypefix.edits import compose
from dtypefix.findings import Edit, Finding, Fix, Span


def finding(*edits: Edit, rule: str = "r") -> Finding:
    span = Span(edits[0].start_byte, edits[0].end_byte, 1, 1, 1, 2)
    return Finding(rule, "core", "warning", "f.py", span, "", "m", (), "", Fix("safe", "t", edits))


def test_the_first_of_two_overlapping_fixes_wins_and_the_other_is_deferred() -> None:
    first, second = finding(Edit(0, 5, "a")), finding(Edit(3, 8, "b"))
    assert compose.choose([first, second]) == ([first], [second])


def test_touching_spans_do_not_overlap() -> None:
    first, second = finding(Edit(0, 5, "a")), finding(Edit(5, 8, "b"))
    assert compose.choose([first, second]) == ([first, second], [])


def test_two_insertions_at_one_place_overlap_unless_they_are_the_same() -> None:
    one, other = finding(Edit(4, 4, "x")), finding(Edit(4, 4, "y"))
    same = finding(Edit(9, 10, "z"), Edit(4, 4, "x"))
    assert compose.choose([one, other, same]) == ([one, same], [other])
    assert compose.edits_of([one, same]) == [Edit(4, 4, "x"), Edit(9, 10, "z")]


def test_an_insertion_inside_a_replaced_range_is_deferred() -> None:
    first, second = finding(Edit(0, 5, "a")), finding(Edit(3, 3, "b"))
    assert compose.choose([first, second]) == ([first], [second])


def test_a_finding_without_a_fix_is_neither_chosen_nor_deferred() -> None:
    bare = replace(finding(Edit(0, 1, "a")), fix=None, unfixed_reason="no")
    assert compose.choose([bare]) == ([], [])


def test_replacements_take_the_line_ending_and_encoding_of_the_file() -> None:
    source = "a = 'é'\r\nb = 2\r\n".encode("latin-1")
    after = compose.apply(source, [Edit(9, 9, "é = 1\n")], "latin-1")
    assert after == "a = 'é'\r\né = 1\r\nb = 2\r\n".encode("latin-1")
