"""A history as text, JSON, CSV, or a heat map in SVG or HTML."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from jinja2 import Environment, PackageLoader, StrictUndefined

from dtypefix import __version__
from dtypefix.compare.history import History
from dtypefix.errors import UserError
from dtypefix.report.paint import Paint, painter

FORMATS = ("text", "json", "csv", "svg", "html")
NONE = "·"
CELL, ROW, HEAD, LETTER = 46, 30, 74, 7.4  # pixels: a cell, the slanted heads, a letter of a rule's name


def format_of(name: str) -> str:
    """The format that a file's ending says.

    Raises:
        UserError: it says none.
    """
    ending = Path(name).suffix.removeprefix(".").replace("txt", "text")
    if ending not in FORMATS:
        raise UserError(f"--output-file {name}: end it in one of .txt, .json, .csv, .svg and .html")
    return ending


def write(history: History, format_name: str, out: TextIO) -> None:
    """Write a history in one of :data:`FORMATS`."""
    if format_name == "text":
        _text(history, out)
    elif format_name == "json":
        data = {"schema": 1, "version": __version__, "project": history.project}
        json.dump({**data, "releases": history.versions, "findings": history.counts}, out, indent=2)
        out.write("\n")
    elif format_name == "csv":
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["rule", *history.versions])
        rows.writerows([rule, *counts] for rule, counts in history.counts.items())
    else:
        out.write(_drawn(history, page=format_name == "html"))


def _text(history: History, out: TextIO) -> None:
    paint = painter(out)
    rules = [*history.counts, "all"]
    label = max(map(len, rules))
    cells = {**history.counts, "all": history.totals}
    widths = [
        max(len(version), *(len(str(cells[rule][i])) for rule in rules))
        for i, version in enumerate(history.versions)
    ]
    for block in _blocks(widths, _room(out) - label):
        head = "".join(f"  {history.versions[i]:>{widths[i]}}" for i in block)
        out.write(f"{paint(f'{history.project:{label}}{head}', 'bold')}\n")
        for rule in rules:
            row = "".join(_cell(cells[rule], i, widths[i], paint) for i in block)
            name = f"{rule:{label}}"
            out.write(f"{paint(name, 'bold') if rule == 'all' else name}{row}\n")
        if block[-1] != len(widths) - 1:
            out.write("\n")


def _cell(counts: Sequence[int], index: int, width: int, paint: Paint) -> str:
    """A number, red where it grew since the release before and green where it shrank."""
    text = f"  {counts[index] or NONE:>{width}}"
    change = counts[index] - counts[index - 1] if index else 0
    return paint(text, "red") if change > 0 else paint(text, "green") if change < 0 else text


def _room(out: TextIO) -> int:
    return shutil.get_terminal_size().columns if out.isatty() else 10_000


def _blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """The columns in as many tables as are needed for each to fit."""
    blocks: list[list[int]] = [[]]
    used = 0
    for index, width in enumerate(widths):
        if blocks[-1] and used + width + 2 > room:
            blocks.append([])
            used = 0
        blocks[-1].append(index)
        used += width + 2
    return blocks


def _drawn(history: History, *, page: bool) -> str:
    environment = Environment(
        loader=PackageLoader("dtypefix.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    # The strongest colour stands for the most findings of any rule; a root keeps small numbers apart.
    most = max((max(counts) for counts in history.counts.values()), default=1) or 1
    rows = [(rule, [(n, (n / most) ** 0.5) for n in counts]) for rule, counts in history.counts.items()]
    label = round(24 + LETTER * max(map(len, [*history.counts, "all"])))
    return (
        environment.get_template("history.html.j2" if page else "history.svg.j2").render(
            history=history,
            rows=rows,
            version=__version__,
            width=label + CELL * len(history.versions) + 40,
            height=HEAD + ROW * (len(rows) + 1) + 20,
            cell=CELL,
            head=HEAD,
            label=label,
            row=ROW,
        )
        + "\n"
    )
