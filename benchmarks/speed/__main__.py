"""Times dtypefix against other tools on one tree, in turn; see ``make bench-speed``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path

PEERS = ("ruff==0.17.6", "ast-grep-cli", "fixit")
SEEDS = "unguarded-combiner,ambient-out-dtype"
PATTERNS = ("self.fc($$$ARGS)", "torch.get_default_dtype()")


@dataclass(frozen=True)
class Row:
    """One line of the table: our command, the peer's, and the ratio that is not to be exceeded."""

    name: str
    ours: list[str]
    peer: list[str] | None
    bar: float | None
    seconds: float | None = None
    runs: int = 5
    peer_runs: int = 5
    setup: str = ""


def install(folder: Path) -> Path:
    """The folder of the peers' programs, in an environment of their own."""
    place = folder / "bin"
    if not (place / "ruff").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([place / "python", "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return place


def rows(tree: Path, peers: Path, cache: Path, few: list[str], runs: int) -> list[Row]:
    """The rows of the table."""
    scan = [sys.executable, "-m", "dtypefix", "scan", "--isolated", "--format", "json"]
    everything = [*scan, "--select", "ALL"]
    ruff = [str(peers / "ruff"), "check", "--isolated", "--select", "NPY,E9", "--quiet"]
    grep = ["sh", "-c", " ; ".join(f"'{peers}/ast-grep' run -l python -p '{p}' '{tree}'" for p in PATTERNS)]
    fixit = [str(peers / "fixit"), "--quiet", "--rules", "fixit.rules:CompareSingletonPrimitivesByIs", "lint"]
    cached = [*everything, "--cache-dir", str(cache), str(tree)]
    click = [sys.executable, "-c", "import click"]
    return [
        Row(
            "two seed rules",
            [*scan, "--select", SEEDS, "--no-cache", str(tree)],
            [*ruff, "--no-cache", str(tree)],
            2,
            runs=runs,
        ),
        Row("default rules", [*scan, "--no-cache", str(tree)], grep, 2.5, runs=runs),
        Row(
            "all rules",
            [*everything, "--no-cache", str(tree)],
            [*fixit, str(tree)],
            1 / 15,
            runs=runs,
            peer_runs=1,
        ),
        Row(
            "all rules, nothing changed",
            cached,
            [*ruff, "--cache-dir", str(cache / "ruff"), str(tree)],
            2.5,
            runs=runs,
        ),
        Row("all rules, one file changed", cached, None, None, 0.6, runs=runs, setup="touch"),
        Row("20 files without a candidate", [*scan, "--no-cache", *few], click, 3, runs=2 * runs),
    ]


def timed(command: list[str], cwd: Path) -> tuple[float, float, int]:
    """Wall seconds, processor seconds and peak memory in KiB of a command and the processes it starts."""
    before = time.perf_counter()
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{command[:6]} ended with {process.returncode}")
    return time.perf_counter() - before, used.ru_utime + used.ru_stime, used.ru_maxrss


def spread(samples: list[tuple[float, float, int]]) -> dict[str, float]:
    """Least, middle and greatest wall time, the middle processor time and the greatest memory."""
    wall = [sample[0] for sample in samples]
    return {
        "min": min(wall),
        "median": statistics.median(wall),
        "max": max(wall),
        "cpu": statistics.median(sample[1] for sample in samples),
        "peak_kib": max(sample[2] for sample in samples),
    }


def measure(row: Row, cwd: Path, changed: Path) -> dict[str, object]:
    """Run a row's commands in turn; the first run of each only warms caches."""
    ours, peer = [], []
    if row.runs > 1:
        timed(row.ours, cwd)
    for number in range(row.runs):
        if row.setup:
            changed.write_text(f"{changed.read_text()}# {number}\n")
        ours.append(timed(row.ours, cwd))
        if row.peer is not None and number < row.peer_runs:
            peer.append(timed(row.peer, cwd))
    result: dict[str, object] = {"name": row.name, "ours": spread(ours), "bar": row.bar or row.seconds}
    if peer:
        result["peer"] = spread(peer)
        result["ratio"] = spread(ours)["median"] / spread(peer)["median"]
        result["cpu_ratio"] = spread(ours)["cpu"] / max(spread(peer)["cpu"], 0.001)
    return result


def table(results: list[dict]) -> str:
    """The results as a Markdown table."""
    lines = ["| case | ours, s (min-max) | cpu, s | peer, s (min-max) | ratio | of cpu | bar | peak, MiB |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for r in results:
        o, p = r["ours"], r.get("peer")
        peer = f"{p['median']:.2f} ({p['min']:.2f}-{p['max']:.2f})" if p else "—"
        ratio = f"{r['ratio']:.3g}" if p else "—"
        cpu = f"{r['cpu_ratio']:.3g}" if p else "—"
        bar = f"{r['bar']:.3g}" + ("" if p else " s")
        ours = f"{o['median']:.2f} ({o['min']:.2f}-{o['max']:.2f})"
        cells = (r["name"], ours, f"{o['cpu']:.2f}", peer, ratio, cpu, bar, f"{o['peak_kib'] / 1024:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def chart(results: list[dict]) -> str:
    """The middle wall times as an SVG bar chart, on a logarithmic scale from 10 ms."""
    from math import log10

    def width(seconds: float) -> float:
        return max(4.0, 110 * (log10(seconds) + 2))

    parts = []
    for number, r in enumerate(results):
        top = 46 * number + 10
        parts.append(f'<text x="10" y="{top + 20}">{r["name"]}</text>')
        for offset, kind, colour in ((0, "ours", "#3b6fb6"), (17, "peer", "#b0b0b0")):
            if kind in r:
                seconds = r[kind]["median"]
                place = f'x="230" y="{top + offset}" width="{width(seconds):.0f}" height="14"'
                bar = f'<rect {place} fill="{colour}"/>'
                parts.append(
                    f'{bar}<text x="{236 + width(seconds):.0f}" y="{top + offset + 12}">'
                    f"{seconds:.2f} s</text>"
                )
    height = 46 * len(results) + 20
    style = "font: 12px sans-serif; fill: #555"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="860" height="{height}" style="{style}">'
    return f"{head}{''.join(parts)}</svg>\n"


def main() -> None:
    """Measure, print the table, write ``results.json`` and ``chart.svg``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, help="the folder to read (default: vllm/ of vLLM 0.33.0)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"))
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    options = parser.parse_args()
    if options.tree is None:
        from dtypefix.sources.releases import parse_release, release_root

        options.tree = release_root(parse_release("vllm==0.33.0")[0]) / "vllm"
    peers = install(options.peers.absolute()).absolute()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        tree = Path(shutil.copytree(options.tree, work / "tree" / "vllm"))
        few = [str(work / f"plain_{number}.py") for number in range(20)]
        for name in few:
            Path(name).write_text("x = 1\n" * 50)
        changed = tree / "envs.py"
        results = []
        for row in rows(tree, peers, work / "cache", few, options.runs):
            if options.only in row.name:
                results.append(measure(row, tree.parent, changed))
                print(f"{row.name}: done", file=sys.stderr)
    print(table(results))
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.output / "chart.svg").write_text(chart(results))


if __name__ == "__main__":
    main()
