"""The HTML report, as a browser shows it."""

from __future__ import annotations

import re
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dtypefix.findings import Edit, Evidence, Finding, Fix, Span
from dtypefix.report import Report, RuleDoc, View, render
from tests.browser import page_after_scripts, screenshot

CODE = """\
class Layer:
    def __init__(self):
        self.fc = make()

    def forward(self, x):
        return self.fc(x)
"""
CALL = CODE.index("self.fc(x)")


def finding(path: str, level: str = "warning", rule: str = "some-rule", **changes) -> Finding:
    known = {
        "rule": rule,
        "group": "core",
        "level": level,
        "path": path,
        "span": Span(CALL, CALL + 10, 6, 16, 6, 26),
        "symbol": "Layer.forward",
        "message": "`self.fc` gets <b>what</b> it should not",
        "evidence": (Evidence(path, 3, "built here"), Evidence(path, 6, "called here")),
        "code": "self.fc(x)",
        "fix": Fix("safe", "cast x", (Edit(CALL + 8, CALL + 9, "x.half()"),)),
        "fingerprint": f"{zlib.crc32(f'{path} {rule}'.encode()):016x}",
    }
    return Finding(**{**known, **changes})


@pytest.fixture
def report(tmp_path: Path) -> Report:
    for name in ("one.py", "two.py", "amd/three.py", "xpu/three.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(CODE)
    doc = RuleDoc("some-rule", "core", "finds", "# some-rule\n\n<script>alert(1)</script>\n\n- one\n")
    findings = (
        finding("one.py"),
        finding("two.py", "error", "other-rule", fix=None, unfixed_reason="no witness"),
        finding("two.py", "note"),
        finding("amd/three.py"),
        finding("xpu/three.py"),
    )
    return Report("scan", str(tmp_path), findings, examined=7, rule_docs=lambda: (doc,))


@pytest.fixture
def page(report: Report, tmp_path: Path) -> Path:
    target = tmp_path / "report.html"
    with target.open("w") as out:
        render("html", report, View(), out)
    return target


class Entries(HTMLParser):
    """Collects the findings of a page and what is said of them."""

    def __init__(self) -> None:
        super().__init__()
        self.visible: list[str] = []
        self.open: list[str] = []
        self.wires = 0

    def handle_starttag(self, tag: str, attrs) -> None:
        values = dict(attrs)
        if tag == "details" and values.get("class") == "finding":
            if "hidden" not in values:
                self.visible.append(f"{values['data-files']} {values['data-rule']}")
            if "open" in values:
                self.open.append(values["id"])
        self.wires += tag == "path" and "head" not in values.get("class", "").split()


def entries(page: Path, fragment: str = "") -> tuple[Entries, str]:
    parsed = Entries()
    text = page_after_scripts(page, fragment, page.parent / "profile")
    parsed.feed(text)
    return parsed, text


def test_the_page_loads_nothing_and_obeys_no_text(page: Path) -> None:
    text = page.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)""", text)
    assert "url(" not in text
    assert "<script>alert" not in text
    assert "&lt;b&gt;what&lt;/b&gt;" in text


def test_the_gravest_come_first_and_notes_are_hidden(page: Path) -> None:
    parsed, text = entries(page)
    assert parsed.visible == [
        "two.py other-rule", "one.py some-rule", "amd/three.py xpu/three.py some-rule",
    ]  # fmt: skip
    assert "4 of 5 findings shown" in text


@pytest.mark.parametrize(
    ("fragment", "visible"),
    [
        ("rule=other-rule", ["two.py other-rule"]),
        ("level=note", ["two.py some-rule"]),
        ("file=XPU", ["amd/three.py xpu/three.py some-rule"]),
        ("kind=manual&level=error,warning", ["two.py other-rule"]),
        ("rule=", []),
    ],
)
def test_filters_are_taken_from_the_address(page: Path, fragment: str, visible: list[str]) -> None:
    assert entries(page, fragment)[0].visible == visible


def test_a_finding_can_be_linked_to_and_its_evidence_is_drawn(page: Path, report: Report) -> None:
    name = report.findings[0].fingerprint
    parsed, text = entries(page, name)
    assert parsed.open == [name]
    assert parsed.wires == 1  # two steps, one line between them
    assert '<span class="nb mark">' in text or '<span class="bp mark">' in text


def test_before_and_after_hold_both_versions(page: Path) -> None:
    text = page.read_text()
    before, after = re.findall(r'<div class="row (?:gone|new)">.*?<code>(.*?)</code>', text)[:2]
    assert before.strip() == "return self.fc(x)"
    assert after.strip() == "return self.fc(x.half())"


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_drawn_in_light_and_dark(page: Path, tmp_path: Path, dark: bool) -> None:
    picture = tmp_path / "page.png"
    screenshot(page, "", tmp_path / "profile", picture, dark=dark)
    colours = corner(picture)
    assert (max(colours) < 60) if dark else (min(colours) > 200)


def corner(picture: Path) -> tuple[int, ...]:
    """The colour of the last pixel of the first row, where a PNG filter has only its left to refer to."""
    data = picture.read_bytes()
    chunks, at = b"", 8
    while at < len(data):
        size = int.from_bytes(data[at : at + 4])
        if data[at + 4 : at + 8] == b"IHDR":
            width, depth, kind = int.from_bytes(data[at + 8 : at + 12]), data[at + 16], data[at + 17]
        elif data[at + 4 : at + 8] == b"IDAT":
            chunks += data[at + 8 : at + 8 + size]
        at += size + 12
    assert (depth, kind) in ((8, 2), (8, 6))
    step = 3 if kind == 2 else 4
    row = bytearray(zlib.decompress(chunks)[: 1 + width * step])
    if row[0] in (1, 4):
        for index in range(1 + step, len(row)):
            row[index] = (row[index] + row[index - step]) % 256
    return tuple(row[-step:][:3])


def test_an_empty_report_says_so(tmp_path: Path) -> None:
    target = tmp_path / "empty.html"
    with target.open("w") as out:
        render("html", Report("scan", "/root", examined=3), View(), out)
    assert "No findings in 3 files." in target.read_text()
