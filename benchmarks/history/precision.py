"""Measure precision: draw findings for people to judge, then merge what they judged.

precision.py draw [--release vllm-0.33.0] [--size 150] [--seed 0] --out DIR
precision.py merge KEY FIRST [SECOND] [--out labels.jsonl]

`draw` writes `sample.jsonl` (id, path, line: the rule is hidden), `second.jsonl` (a third of it, for a
second reader) and `key.jsonl` (what the tool said), in random order. A reader adds to each line a `label`
(`hazard`, `right` as it is, or `unclear`) and a `reason`, before looking at the key. `merge` prints
precision for each rule (unclear counts as wrong), with a 95 % interval, and how far two readers agree.
"""

from __future__ import annotations

import argparse
import collections
import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from corpus import PACKAGE, Row, load, save
from score import scan

from dtypefix.sources.releases import sources_folder

LABELS = ("hazard", "right", "unclear")


def stratified(findings: Sequence[Row], size: int, seed: int) -> list[Row]:
    """A sample in which each rule has its share, rounded up so that none is left out, in random order."""
    by_rule: dict[str, list[Row]] = collections.defaultdict(list)
    for finding in sorted(findings, key=lambda f: (f["rule"], f["path"], f["line"], f["fingerprint"])):
        by_rule[finding["rule"]].append(finding)
    chooser = random.Random(seed)
    size = min(size, len(findings))
    shares = {rule: max(1, math.floor(size * len(fs) / len(findings))) for rule, fs in by_rule.items()}
    while sum(shares.values()) < size:
        shares[max(sorted(by_rule), key=lambda rule: len(by_rule[rule]) - shares[rule])] += 1
    chosen = [f for rule in sorted(by_rule) for f in chooser.sample(by_rule[rule], shares[rule])]
    chooser.shuffle(chosen)
    return chosen


def judged(rows: Sequence[Row]) -> dict[str, Row]:
    """The labelled rows by id; exits with the first row whose label is none."""
    for row in rows:
        if row.get("label") not in LABELS or not row.get("reason"):
            sys.exit(f"{row['path']}:{row['line']}: give a label ({', '.join(LABELS)}) and a reason")
    return {row["id"]: row for row in rows}


def interval(right: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    if not n:
        return 0.0, 1.0
    z, p = 1.96, right / n
    middle, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (middle - spread) / (1 + z * z / n), (middle + spread) / (1 + z * z / n)


def agreement(first: dict[str, Row], second: dict[str, Row]) -> tuple[int, int, float]:
    """Rows that both judged, rows on which they agree, and Cohen's kappa."""
    both = sorted(first.keys() & second.keys())
    same = sum(first[i]["label"] == second[i]["label"] for i in both)
    n = max(len(both), 1)
    chance = sum(
        sum(first[i]["label"] == label for i in both) * sum(second[i]["label"] == label for i in both)
        for label in LABELS
    ) / (n * n)
    return len(both), same, 1.0 if chance == 1 else (same / n - chance) / (1 - chance)


def draw(args: argparse.Namespace) -> None:
    tree = args.sources / args.release
    if not tree.is_dir():
        sys.exit(f"no sources at {tree}: run fetch.py {'=='.join(args.release.rsplit('-', 1))}")
    found = scan(args.command, tree, [PACKAGE[args.release.rsplit("-", 1)[0]]])
    sample = stratified([f for fs in found.values() for f in fs], args.size, args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    numbered = [(f"{n:03}", f) for n, f in enumerate(sample)]
    hidden = [{"id": i, "path": f["path"], "line": f["line"], "label": "", "reason": ""} for i, f in numbered]
    save(args.out / "sample.jsonl", hidden)
    save(args.out / "second.jsonl", hidden[: math.ceil(len(hidden) / 3)])
    keys = ("rule", "level", "path", "line", "symbol", "message", "fingerprint")
    save(args.out / "key.jsonl", ({"id": i, **{k: f[k] for k in keys}} for i, f in numbered))
    print(f"{len(hidden)} findings of {len({f['rule'] for f in sample})} rules in {args.out}")


def merge(args: argparse.Namespace) -> None:
    key = {row["id"]: row for row in load(args.key)}
    first = judged(load(args.first))
    second = judged(load(args.second)) if args.second else {}
    strangers = sorted((first.keys() | second.keys()) - key.keys())
    if strangers:
        sys.exit(f"not in {args.key}: {', '.join(strangers)}")
    by_rule: dict[str, list[str]] = collections.defaultdict(list)
    for i, row in first.items():
        by_rule[key[i]["rule"]].append(row["label"])
    columns = f"{'judged':>6} {'hazard':>7} {'right':>6} {'unclear':>8} {'precision':>10}"
    print(f"{'rule':28} {columns}   95 % interval")
    for rule, labels in [*sorted(by_rule.items()), ("all", [r["label"] for r in first.values()])]:
        counts = collections.Counter(labels)
        low, high = interval(counts["hazard"], len(labels))
        share = counts["hazard"] / max(len(labels), 1)
        print(
            f"{rule:28} {len(labels):6} {counts['hazard']:7} {counts['right']:6} {counts['unclear']:8} "
            f"{share:10.0%}   {low:.0%} to {high:.0%}"
        )
    if second:
        n, same, kappa = agreement(first, second)
        print(f"two readers: {same} of {n} alike ({same / max(n, 1):.0%}), kappa {kappa:.2f}")
    if args.out:
        save(
            args.out,
            (
                {
                    **{k: v for k, v in key[i].items() if k != "id"},
                    "label": row["label"],
                    "reason": row["reason"],
                    "second": second[i]["label"] if i in second else None,
                }
                for i, row in sorted(
                    first.items(), key=lambda item: (key[item[0]]["rule"], key[item[0]]["path"])
                )
            ),
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    drawing = commands.add_parser("draw", help="draw findings to judge")
    drawing.add_argument("--release", default="vllm-0.33.0")
    drawing.add_argument("--sources", type=Path, default=sources_folder())
    drawing.add_argument("--command", default="dtypefix", help="how to run the tool")
    drawing.add_argument("--size", type=int, default=150)
    drawing.add_argument("--seed", type=int, default=0)
    drawing.add_argument("--out", type=Path, required=True, help="folder for the three files")
    drawing.set_defaults(run=draw)
    merging = commands.add_parser("merge", help="precision and agreement of what was judged")
    merging.add_argument("key", type=Path)
    merging.add_argument("first", type=Path)
    merging.add_argument("second", type=Path, nargs="?")
    merging.add_argument("--out", type=Path, help="write the labels, with what the tool said, to this file")
    merging.set_defaults(run=merge)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
