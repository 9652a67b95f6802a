"""Score `dtypefix scan` on the fix history: what is found, what is gone after the repair, what is wrong.

Notes are left out, and so is a finding that spans 15 lines or more. A row is *detected* when a finding of
its rule (or of that rule's kin) touches its lines, two lines of slack, or stands in the same symbol. It is
*confirmed* when, besides, that rule reports fewer findings for the symbol (or for the file, where the
symbol moved) in the release that repaired it. An event counts once: it is detected when any of its rows
is. A negative is flagged when any finding above note touches it.
"""

from __future__ import annotations

import argparse
import collections
import json
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from corpus import HERE, PACKAGE, Row, load, release, releases, save

from dtypefix.sources.releases import sources_folder

# Families outside what a source rewrite can repair are reported, but are not part of the core figure.
NOT_CORE = {"FP8PLAT", "INTDT", "SCALEFMT", "PRECISION", "GATE"}
# A row may be found under a narrower or wider name of the same fault.
KIN = {
    "unguarded-linear-input": {"unguarded-combiner", "wrong-output-dtype"},
    "packed-weight-dtype": {"module-to-dtype"},
    "wrong-output-dtype": {"ambient-out-dtype", "unguarded-linear-input"},
    "checkpoint-dtype-pinned": {"hard-coded-half"},
    "hard-coded-half": {"checkpoint-dtype-pinned"},
}
SLACK, LONGEST = 2, 15

Findings = dict[str, list[Row]]
Scored = tuple[Row, bool, bool]


def scan(command: str, tree: Path, paths: Iterable[str]) -> Findings:
    """The findings above note, by path, of some paths of an unpacked release."""
    argv = [*shlex.split(command), "scan", "--isolated", "--select", "ALL", "--format", "json", *paths]
    run = subprocess.run(argv, cwd=tree, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):
        sys.exit(f"exit {run.returncode} in {tree.name}: {run.stderr[-2000:]}")
    found: Findings = collections.defaultdict(list)
    for finding in json.loads(run.stdout)["findings"]:
        if finding["level"] != "note" and finding["end_line"] - finding["line"] < LONGEST:
            found[finding["path"].removeprefix("./")].append(finding)
    return found


def same_symbol(finding: Row, symbol: str) -> bool:
    """Whether a finding stands in a symbol, where either name may be qualified further."""
    found = finding["symbol"]
    return bool(found) and (found == symbol or found.endswith("." + symbol) or symbol.endswith("." + found))


def touches(finding: Row, low: int, high: int) -> bool:
    """Whether a finding has a line between two lines, both included."""
    return bool(finding["line"] <= high and finding["end_line"] >= low)


def hits(findings: list[Row], row: Row) -> list[Row]:
    """The findings that detect a row."""
    rules = {row["rule"]} | KIN.get(row["rule"], set())
    low, high = row["line"] - SLACK, row["end_line"] + SLACK
    return [
        f for f in findings if f["rule"] in rules and (touches(f, low, high) or same_symbol(f, row["symbol"]))
    ]


def score(fixes: list[Row], found: dict[str, Findings]) -> list[Scored]:
    """Each row with whether it is detected and confirmed; rows of releases not at hand are left out."""
    scored = []
    for row in fixes:
        before, after = release(row, "before"), release(row, "after")
        if before not in found or after not in found:
            continue
        old, new = found[before].get(row["path_before"], []), found[after].get(row["path_after"], [])
        matched = hits(old, row)
        confirmed = False
        for rule in {f["rule"] for f in matched}:
            of_old, of_new = ([f for f in fs if f["rule"] == rule] for fs in (old, new))
            in_old = [f for f in of_old if same_symbol(f, row["symbol"])]
            in_new = [f for f in of_new if same_symbol(f, row["symbol_after"] or row["symbol"])]
            confirmed |= len(in_new) < len(in_old) or (not in_old and len(of_new) < len(of_old))
        scored.append((row, bool(matched), confirmed))
    return scored


def table(title: str, groups: Iterable[tuple[str, list[Scored]]]) -> None:
    """Print events, detected and confirmed, for each group of rows."""
    print(f"\n{title:28} {'events':>7} {'detected':>9} {'confirmed':>10}")
    for key, rows in groups:
        events: dict[str, list[bool]] = collections.defaultdict(lambda: [False, False])
        for row, detected, confirmed in rows:
            events[row["event"]][0] |= detected
            events[row["event"]][1] |= confirmed
        n = max(len(events), 1)
        d, c = (sum(event[i] for event in events.values()) for i in (0, 1))
        print(f"{key:28} {len(events):7} {d:4} {d / n:4.0%} {c:5} {c / n:4.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, default=HERE, help="folder of fixes.jsonl and negatives.jsonl")
    parser.add_argument("--sources", type=Path, default=sources_folder(), help="unpacked releases")
    parser.add_argument("--command", default="dtypefix", help="how to run the tool")
    parser.add_argument("--families", help="score these families only, separated by commas")
    parser.add_argument("--noise", default="vllm-0.33.0", help="release scanned whole, to count findings")
    parser.add_argument("--save", type=Path, help="write the rows with their result to this file")
    args = parser.parse_args()
    wanted = set(args.families.split(",")) if args.families else None

    fixes = [r for r in load(args.corpus / "fixes.jsonl") if not wanted or r["family"] in wanted]
    negatives = load(args.corpus / "negatives.jsonl")
    named: dict[str, set[str]] = collections.defaultdict(set)
    for row in fixes:
        for side in ("before", "after"):
            named[release(row, side)].add(row["path_" + side])
    for row in negatives:
        named[release(row, "")].add(row["path"])
    missing = [name for name in releases(fixes, negatives) if not (args.sources / name).is_dir()]
    found = {}
    for name in sorted(named.keys() - set(missing)):
        tree = args.sources / name
        found[name] = scan(args.command, tree, sorted(p for p in named[name] if (tree / p).is_file()))
    if not found:
        sys.exit(f"no sources under {args.sources}: run fetch.py")

    scored = score(fixes, found)
    core = [s for s in scored if s[0]["family"] not in NOT_CORE]
    families: dict[str, list[Scored]] = collections.defaultdict(list)
    reach: dict[str, list[Scored]] = collections.defaultdict(list)
    for s in scored:
        families[s[0]["family"]].append(s)
    for s in core:
        reach[s[0]["evidence"]].append(s)
    table("family", sorted(families.items(), key=lambda item: -len(item[1])))
    table("core by evidence", sorted(reach.items()))
    table("total", [("core", core), ("all", scored)])

    flagged = [
        (row, f)
        for row in negatives
        for f in found.get(release(row, ""), {}).get(row["path"], [])
        if touches(f, row["line"] - 1, row["line"] + 1)
    ]
    print(f"\nnegatives flagged: {len({row['id'] for row, _ in flagged})} of {len(negatives)}")
    for row, f in flagged:
        print(f"  {row['id']} {release(row, '')} {row['path']}:{f['line']} {f['rule']}: {row['reason']}")
    noise = args.sources / args.noise
    if noise.is_dir():
        whole = scan(args.command, noise, [PACKAGE[args.noise.rsplit("-", 1)[0]]])
        rules = collections.Counter(f["rule"] for fs in whole.values() for f in fs)
        print(f"findings above note in {args.noise}, all rules: {sum(rules.values())} in {len(whole)} files")
        for rule, n in rules.most_common():
            print(f"  {n:5} {rule}")
    if missing:
        print("\nnot scored, sources missing:", " ".join(missing))
    if args.save:
        save(args.save, ({**row, "detected": d, "confirmed": c} for row, d, c in scored))


if __name__ == "__main__":
    main()
