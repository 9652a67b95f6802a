"""The report for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from dtypefix.report.paint import painter
from dtypefix.validate.session import Validation
from dtypefix.validate.verdict import FAILED, SETTLED, Row, Verdict

_STYLES = {Verdict.VALIDATED: "green", Verdict.NOT_APPLICABLE: "dim"}
_WIDTH = max(len(verdict) for verdict in Verdict)


def write(validation: Validation, out: TextIO) -> None:
    """Write one block a place, one line a platform and tier, then a summary."""
    paint = painter(out)
    place = None
    for row in validation.rows:
        if row.place != place:
            place = row.place
            symbol = f"  {place.symbol}" if place.symbol else ""
            print(f"\n{paint(str(place), 'bold')}  {place.rule}{symbol}", file=out)
        style = _STYLES.get(row.verdict, "red" if row.verdict in FAILED else "yellow")
        said = paint(f"{row.verdict:{_WIDTH}}", style)
        print(f"  {row.platform:12} {row.tier:8} {said}  {because(row)}", file=out)
        for label, text in (("before", row.judgement.before), ("after", row.judgement.after)):
            if text and row.verdict is not Verdict.NOT_APPLICABLE:
                print(f"  {'':22}{label:>6}: {text}", file=out)
    print(file=out)
    for line in closing(validation):
        print(line, file=out)


def because(row: Row) -> str:
    """Why a row says what it says, in one line."""
    judgement = row.judgement
    parts = [judgement.reason.value if judgement.reason else "", judgement.detail]
    told = ": ".join(part for part in parts if part)
    return f"{judgement.case}: {told}" if judgement.case and told else told or judgement.case


def closing(validation: Validation) -> Iterator[str]:
    """The lines under the table: counts, checks without a place, times, what was left out."""
    counts: dict[Verdict, int] = {}
    for row in validation.rows:
        counts[row.verdict] = counts.get(row.verdict, 0) + 1
    places = {row.place for row in validation.rows}
    shown = {row.place for row in validation.rows if row.verdict in SETTLED}
    told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    yield f"{len(places)} places, {len(shown)} shown on some platform; rows: {told}"
    static = validation.static
    problems = f"{len(static.problems)} with problems" if static.problems else "no problem"
    yield f"static: {static.files} changed files parse, {static.ruff}: {problems}"
    for line in validation.smoke:
        yield f"end to end: {line}"
    for note in validation.notes:
        yield f"note: {note}"
    peak = max((timing.peak_memory for timing in validation.timings), default=0) / 2**30
    yield f"{validation.seconds:.0f} s, at most {peak:.1f} GiB a process"
