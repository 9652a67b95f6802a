"""One page that needs nothing else: filters, the code with the evidence drawn on it, before and after.

Jinja2 writes it because it escapes what it is given by default, Pygments colours the code, and markdown-it
renders the rules' pages; none of them is imported by any other format. The page's policy forbids it to load
anything.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, TextIO

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from dtypefix import __version__
from dtypefix.findings import LEVELS
from dtypefix.report.change import ChangedLine, changed_lines
from dtypefix.report.code_view import CodeViews
from dtypefix.report.model import Report, View
from dtypefix.report.twins import Group, grouped, short_places
from dtypefix.report.words import KINDS, kind_of, plural


def render(report: Report, view: View, out: TextIO) -> None:
    """Write the page; notes are on it, hidden until they are asked for."""
    environment = Environment(
        loader=PackageLoader("dtypefix.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["ticks"] = _ticks
    groups = sorted(grouped(report.findings), key=lambda group: LEVELS.index(group.first.level))
    views = CodeViews(report)
    rules = Counter(finding.rule for finding in report.findings)
    levels = Counter(finding.level for finding in report.findings)
    page = environment.get_template("page.html.j2").render(
        title=f"dtypefix: {plural(len(report.findings), 'finding')}",
        version=__version__,
        root=PurePosixPath(report.root).name or report.root,
        examined=report.examined,
        levels=[(level, levels[level]) for level in LEVELS],
        show_notes=view.show_notes,
        rules=sorted(rules.items(), key=lambda item: (-item[1], item[0])),
        most=max(rules.values(), default=1),
        kinds=[(kind, sum(kind_of(f) == kind for f in report.findings)) for kind in KINDS],
        entries=[_entry(report, views, group) for group in groups],
        skipped=report.skipped,
        pages=_pages(report),
    )
    out.write(page + "\n")


def _entry(report: Report, views: CodeViews, group: Group) -> dict[str, Any]:
    finding = group.first
    source = report.source(finding.path)
    change = _dedented(list(changed_lines(source, finding.fix, context=2))) if finding.fix and source else []
    return {
        "finding": finding,
        "kind": kind_of(finding),
        "files": " ".join(f.path for f in (finding, *group.twins)),
        "number": 1 + len(group.twins),
        "twins": short_places(group),
        "panels": views.panels(finding),
        "before": [line for line in change if line.sign != "+"],
        "after": [line for line in change if line.sign != "-"],
    }


def _dedented(lines: Sequence[ChangedLine]) -> list[ChangedLine]:
    """Lines of code without the indentation that they share, for two columns of them to fit."""
    text = textwrap.dedent("\n".join(line.text.expandtabs(4) for line in lines))
    return [replace(line, text=part) for line, part in zip(lines, text.split("\n"), strict=True)]


def _ticks(text: str) -> Markup:
    """Text in which what stands between backticks is code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _pages(report: Report) -> list[tuple[str, str]]:
    """The pages of the rules that found something, as HTML; raw HTML in them is shown, not obeyed."""
    found = {finding.rule for finding in report.findings}
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    return [(rule.name, markdown.render(rule.page)) for rule in report.rules if rule.name in found]
