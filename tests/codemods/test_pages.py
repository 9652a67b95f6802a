"""Every Python block of every rule page is a case: most must stay silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtypefix.api import InputFile, Options, Roots, rewrite, scan
from dtypefix.engine.catalog import load_catalog

from .cases import Case, Page, read_page

CATALOG = load_catalog()
PAGES = [read_page(rule.path) for rule in CATALOG.rules]
CASES = [pytest.param(page, case, id=f"{page.rule}:{case.number}") for page in PAGES for case in page.cases]
FIXED = [
    pytest.param(page, case, kind, id=f"{page.rule}:{case.number}-{kind}")
    for page in PAGES
    for case in page.cases
    for kind in case.fixed
]
HEADINGS = [
    "What it finds",
    "Why it is wrong",
    "Example",
    "What to write instead",
    "Fix safety",
    "Not flagged",
    "Upstream history",
]


def lay_out(page: Page, case: Case, root: Path) -> tuple[InputFile, Roots]:
    for name, text in {**page.files, case.filename: case.code}.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        for folder in file.relative_to(root).parents:
            if folder != Path():
                (root / folder / "__init__.py").touch()
    return InputFile(case.filename, root / case.filename), Roots((root,), root)


@pytest.mark.parametrize(("page", "case"), CASES)
def test_reports_exactly_the_marked_lines(page: Page, case: Case, tmp_path: Path) -> None:
    file, roots = lay_out(page, case, tmp_path)
    (result,) = scan([file], Options(select=(page.rule,)), roots)
    assert result.skipped is None
    found = {(f.span.line, "note" if f.level == "note" else "finding") for f in result.findings}
    assert found == case.expected
    assert len(result.findings) == len(case.expected)


@pytest.mark.parametrize(("page", "case", "kind"), FIXED)
def test_fixes_to_exactly_the_given_text(page: Page, case: Case, kind: str, tmp_path: Path) -> None:
    file, roots = lay_out(page, case, tmp_path)
    options = Options(select=(page.rule,), unsafe_fixes=kind == "unsafe")
    (result,) = rewrite([file], options, roots)
    assert result.problem is None
    assert result.after.decode() == case.fixed[kind]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.rule)
def test_most_cases_are_silent(page: Page) -> None:
    assert page.cases
    silent = [case for case in page.cases if not case.expected]
    assert len(silent) * 2 >= len(page.cases)


@pytest.mark.parametrize("rule", CATALOG.rules, ids=lambda rule: rule.name)
def test_a_page_has_the_fixed_headings_in_order(rule) -> None:
    headings = [line.removeprefix("## ") for line in rule.page.splitlines() if line.startswith("## ")]
    assert headings == HEADINGS


@pytest.mark.parametrize("rule", CATALOG.rules, ids=lambda rule: rule.name)
def test_a_rule_loads_and_its_visitors_name_libcst_nodes(rule) -> None:
    assert rule.load().name == rule.name
