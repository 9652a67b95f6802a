"""The report as Markdown, fit to be pasted into a pull request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from dtypefix import __version__
from dtypefix.validate.report.table import because, closing
from dtypefix.validate.session import Validation
from dtypefix.validate.trees import diff
from dtypefix.validate.verdict import SETTLED, Row


def write(validation: Validation, out: TextIO) -> None:
    """Write the page: verdicts, what each probe saw, what was not shown, how it was run, the diff."""
    out.write("\n".join(_lines(validation)) + "\n")


def _lines(validation: Validation) -> Iterator[str]:
    request = validation.request
    yield "## What was shown"
    yield ""
    yield "| place | rule | platform | tier | verdict | why |"
    yield "|---|---|---|---|---|---|"
    for row in validation.rows:
        place = f"`{row.place}`"
        cells = (place, row.place.rule, row.platform, row.tier, f"**{row.verdict}**", _cell(because(row)))
        yield "| " + " | ".join(cells) + " |"
    yield ""
    yield "## Before and after"
    for row in validation.rows:
        if row.judgement.before or row.judgement.after:
            yield from _before_after(row)
    yield ""
    yield "## What was not shown"
    yield ""
    open_rows = [row for row in validation.rows if row.verdict not in SETTLED]
    for row in open_rows:
        yield f"- `{row.place}` on {row.platform} ({row.tier}): {row.verdict}, {because(row)}"
    for note in validation.notes:
        yield f"- {note}"
    if not open_rows and not validation.notes:
        yield "Nothing was left out."
    yield ""
    yield "## How it was run"
    yield ""
    yield f"- dtypefix {__version__}, Python {request.runtime.python_version}, torch {request.runtime.torch}"
    for key, facts in validation.facts.items():
        if facts:
            yield f"- {key}: vLLM {facts.get('vllm')}, {facts.get('forced') or facts.get('hardware')}"
    for line in closing(validation):
        yield f"- {line}"
    yield ""
    yield "## The change"
    yield ""
    yield "```diff"
    yield diff(request.trees).rstrip("\n")
    yield "```"


def _before_after(row: Row) -> Iterator[str]:
    yield ""
    yield f"**`{row.place}`** on {row.platform}, {row.tier} probe `{row.judgement.case}`"
    yield ""
    yield "```text"
    yield f"before: {row.judgement.before}"
    yield f"after:  {row.judgement.after}"
    yield "```"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
