from __future__ import annotations

import io
import json

from dtypefix.findings import Evidence, Finding, Fix, Level, Skipped, Span
from dtypefix.report import Report, View, format_names, render


def finding(
    level: Level = "warning", rule: str = "some-rule", fix: Fix | None = None, message: str = "why"
) -> Finding:
    return Finding(
        rule=rule,
        group="core",
        level=level,
        path="pkg/a.py",
        span=Span(10, 14, 2, 3, 2, 7),
        symbol="A.f",
        message=message,
        evidence=(Evidence("pkg/b.py", 7, "built here"),),
        code="code",
        fix=fix,
        unfixed_reason=None if fix else "no witness",
        fingerprint="f00d",
    )


SAFE = Fix("safe", "do this", ())
UNSAFE = Fix("unsafe", "do this", ())


def shown(report: Report, format_name: str = "text", **view: bool) -> str:
    out = io.StringIO()
    render(format_name, report, View(**view), out)
    return out.getvalue()


def test_every_format_renders_an_empty_report() -> None:
    assert format_names()[0] == "text"
    for name in format_names():
        text = shown(Report("scan", "/root"), name)
        assert text.endswith("\n") or (name in ("github", "json-lines") and text == "")


def test_the_counts_close_over_every_kind() -> None:
    report = Report(
        mode="rewrite",
        root="/root",
        findings=(finding(), finding("note")),
        fixed=(finding(fix=SAFE),) * 3,
        suppressed=(finding(rule="other"),),
        baselined=(finding(),) * 2,
    )
    summary = report.summary
    assert summary == {
        "found": 8, "fixed": 3, "unfixed": 2, "suppressed": 1, "baselined": 2,
        "by_rule": {"other": 1, "some-rule": 7},
    }  # fmt: skip


def test_the_summary_counts_by_rule_and_says_what_can_be_applied() -> None:
    findings = (finding(fix=SAFE), finding(fix=SAFE), finding("error", "other", UNSAFE), finding())
    lines = shown(Report("scan", "/root", findings=findings, examined=9)).splitlines()
    assert lines[4:] == [
        "",
        "Found 1 error, 3 warnings in 1 file of 9 examined",
        "  some-rule    3  (2 safe, 1 manual)",
        "  other        1  (1 unsafe)",
        "`dtypefix rewrite` applies the 2 safe fixes; --diff only shows them.",
        "`dtypefix rewrite --unsafe-fixes` adds 1 unsafe, likely right but not proved, for you to review.",
    ]


def test_a_message_cannot_break_its_line_or_steer_the_terminal() -> None:
    text = shown(Report("scan", "/root", findings=(finding(message="one\ntwo\x1b[31m"),)))
    assert text.splitlines()[0] == "pkg/a.py:2:3: warning some-rule: one two\\x1b[31m [manual]"


def test_notes_appear_in_json_but_in_text_only_on_request() -> None:
    report = Report("scan", "/root", findings=(finding("note"),), examined=1)
    assert "pkg/a.py" not in shown(report)
    assert "pkg/a.py:2:3: note" in shown(report, show_notes=True)
    assert len(json.loads(shown(report, "json"))["findings"]) == 1


def test_what_was_skipped_is_listed_in_json() -> None:
    report = Report("scan", "/root", skipped=(Skipped("b.py", "why not"),))
    assert json.loads(shown(report, "json"))["skipped"] == [{"path": "b.py", "reason": "why not"}]
    assert "1 file skipped." in shown(report)


def test_evidence_in_json_names_its_place() -> None:
    (data,) = json.loads(shown(Report("scan", "/root", findings=(finding(),)), "json"))["findings"]
    assert data["evidence"] == [{"path": "pkg/b.py", "line": 7, "text": "built here"}]
    assert (data["symbol"], data["fingerprint"], data["end_line"]) == ("A.f", "f00d", 2)
