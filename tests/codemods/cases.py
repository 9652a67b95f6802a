"""The cases inside a rule's page: its Python blocks, and what they assert."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_BLOCK = re.compile(r"^```python(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="(?P<title>[^"]*)"')
_MARKER = re.compile(r"[ \t]*# (?P<level>finding|note): (?P<rule>[a-z0-9-]+)$", re.MULTILINE)


@dataclass
class Case:
    """One block: its code without markers, the lines that must be reported, the expected fixed text.

    ``expected`` holds ``(line, "finding" | "note")``; ``fixed`` maps "safe" or "unsafe" to the text.
    """

    number: int
    code: str
    expected: set[tuple[int, str]]
    filename: str = "case.py"
    fixed: dict[str, str] = field(default_factory=dict)


@dataclass
class Page:
    """The cases of one page and the files that they can import."""

    rule: str
    cases: list[Case]
    files: dict[str, str]


def read_page(path: Path) -> Page:
    """Read the cases of a rule's page.

    A block titled ``fixed`` is the text after the safe fixes of the case above it, one titled
    ``fixed with --unsafe-fixes`` that after both kinds. A block titled ``with PATH.py`` is a file in
    reach of every case; one titled ``PATH.py`` is a case that lies there. Others are cases.
    """
    rule = path.stem.replace("_", "-")
    page = Page(rule, [], {})
    text = path.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        title = (_TITLE.search(match["info"]) or {"title": ""})["title"]
        code = match["code"]
        if title == "fixed":
            page.cases[-1].fixed["safe"] = code
        elif title == "fixed with --unsafe-fixes":
            page.cases[-1].fixed["unsafe"] = code
        elif title.startswith("with "):
            page.files[title.removeprefix("with ")] = code
        else:
            expected = set()
            for marker in _MARKER.finditer(code):
                assert marker["rule"] == rule, f"{path.name}: a case for {marker['rule']}"
                expected.add((code.count("\n", 0, marker.start()) + 1, marker["level"]))
            number = text.count("\n", 0, match.start()) + 1
            case = Case(number, _MARKER.sub("", code), expected)
            if title.endswith(".py"):
                case.filename = title
            page.cases.append(case)
    return page
