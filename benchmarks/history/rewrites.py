"""Rewrite whole releases in memory and see what comes of it, then compare repairs with those of upstream.

Every file that a fix changes must compile, must be left alone by a second run (in which all changed files
stand in for those on disk), and must draw no complaint from ruff, with the release's own settings, that it
did not draw before. That is asked of the safe fixes, and, to be seen apart, of the unsafe ones as well.

Then the rows of `fixes.jsonl` that say `mechanical: yes`: how many of the places a fix changes, and how many
of these changes are the statement that upstream wrote.
"""

from __future__ import annotations

import argparse
import collections
import difflib
import functools
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import upstream
from corpus import HERE, Row, load, release, releases, save

from dtypefix.api import InputFile, Options, Roots, rewrite
from dtypefix.edits.fix_file import FixedFile
from dtypefix.engine.catalog import load_catalog
from dtypefix.sources.listing import python_files
from dtypefix.sources.releases import sources_folder

MODES = ("safe", "safe+unsafe")
PROBLEMS = ("refused", "does not compile", "not idempotent", "ruff complains", "not formatted")


def rewritten(
    tree: Path, files: Iterable[Path], mode: str, standing_in: Mapping[Path, bytes] | None = None
) -> Iterator[FixedFile]:
    """What the fixes of all rules make of some files of an unpacked release; nothing is written."""
    sources = standing_in or {}
    options = Options(select=fixing_rules(), unsafe_fixes=mode == MODES[1])
    inputs = [InputFile(file.relative_to(tree).as_posix(), file, sources.get(file)) for file in files]
    return rewrite(inputs, options, Roots((tree,), tree))


def fixing_rules() -> tuple[str, ...]:
    """The rules that change code at all."""
    return tuple(rule.name for rule in load_catalog().rules if set(rule.fix) & {"safe", "unsafe"})


def has_unsafe(result: FixedFile) -> bool:
    """Whether a file has a fix that only ``--unsafe-fixes`` applies, before or after its safe ones."""
    found = [*(result.original.findings if result.original else ()), *result.remaining.findings]
    return any(f.counts and f.fix is not None and f.fix.applicability == "unsafe" for f in found)


@functools.lru_cache(maxsize=4096)
def ruff(tree: Path, path: str, source: bytes, *arguments: str) -> bytes:
    """What ruff prints for one file's text, with the settings that the tree has for its path."""
    argv = [sys.executable, "-m", "ruff", *arguments, "--no-cache", "--quiet", "--stdin-filename", path, "-"]
    run = subprocess.run(argv, cwd=tree, input=source, capture_output=True, check=False)
    if run.returncode not in (0, 1):
        sys.exit(f"ruff, exit {run.returncode}, on {tree.name} {path}: {run.stderr.decode()[-500:]}")
    return run.stdout


def complaints(tree: Path, path: str, source: bytes) -> collections.Counter[str]:
    """ruff's complaints about one file, without the numbers in their texts."""
    found = json.loads(ruff(tree, path, source, "check", "--output-format", "json"))
    return collections.Counter(f"{f['code']} {re.sub('[0-9]+', 'N', f['message'])}" for f in found)


def formatted(tree: Path, path: str, source: bytes) -> bool:
    """Whether ruff would leave the layout of one file as it is."""
    return ruff(tree, path, source, "format") == source


def problems(tree: Path, results: Sequence[FixedFile], mode: str) -> Iterator[Row]:
    """What is wrong with the rewriting of a release: rows of path, kind (of ``PROBLEMS``) and detail."""
    changed = [r for r in results if r.after != r.before]
    for result in results:
        if result.problem is not None:
            yield {"path": result.path, "kind": "refused", "detail": result.problem.reason}
    for result in changed:
        try:
            compile(result.after, result.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            yield {"path": result.path, "kind": "does not compile", "detail": str(error)}
            continue
        new = complaints(tree, result.path, result.after) - complaints(tree, result.path, result.before)
        if new:
            yield {"path": result.path, "kind": "ruff complains", "detail": "; ".join(sorted(new))}
        before, after = (formatted(tree, result.path, text) for text in (result.before, result.after))
        if before and not after:
            yield {"path": result.path, "kind": "not formatted", "detail": ""}
    standing_in = {tree / r.path: r.after for r in changed}
    for again in rewritten(tree, standing_in, mode, standing_in):
        if again.after != again.before or again.problem is not None:
            detail = "; ".join(f"{f.rule} at {f.span.line}" for f in again.fixed)
            yield {"path": again.path, "kind": "not idempotent", "detail": detail}


def examined(tree: Path, patches: Path | None) -> Iterator[Row]:
    """Rewrite a release with its safe fixes, then, where there are any, with its unsafe ones too."""
    files = python_files(tree)
    results = [
        r for r in rewritten(tree, files, MODES[0]) if r.after != r.before or r.problem or has_unsafe(r)
    ]
    for mode in MODES:
        if mode == MODES[1]:
            # Files without an unsafe fix come out as before.
            again = {
                r.path: r for r in rewritten(tree, (tree / r.path for r in results if has_unsafe(r)), mode)
            }
            results = [again.get(r.path, r) for r in results]
        changed = [r for r in results if r.after != r.before]
        if patches is not None:
            (patches / f"{tree.name}-{mode}.patch").write_text("".join(map(patch, changed)), encoding="utf-8")
        yield {
            "release": tree.name,
            "mode": mode,
            "files": len(files),
            "changed": len(changed),
            "fixes": dict(collections.Counter(f.rule for r in changed for f in r.fixed).most_common()),
            "deferred": sum(len(r.deferred) for r in results),
            "problems": list(problems(tree, results, mode)),
        }


def patch(result: FixedFile) -> str:
    """One file's change as a unified diff."""
    old, new = (text.decode(errors="replace").splitlines(True) for text in (result.before, result.after))
    return "".join(difflib.unified_diff(old, new, f"a/{result.path}", f"b/{result.path}"))


def compared(fixes: Sequence[Row], sources: Path) -> Iterator[Row]:
    """Each mechanical repair of the history with, for each mode, how the rewrite of its place compares.

    Rows of releases that are not at hand are left out.
    """
    wanted: dict[str, list[Row]] = collections.defaultdict(list)
    for row in fixes:
        there = all((sources / release(row, side)).is_dir() for side in ("before", "after"))
        if row["mechanical"] == "yes" and there:
            wanted[release(row, "before")].append(row)
    for name, rows in sorted(wanted.items()):
        tree = sources / name
        files = sorted({tree / row["path_before"] for row in rows})
        outcome = {mode: {r.path: r for r in rewritten(tree, files, mode)} for mode in MODES}
        for row in rows:
            theirs = (sources / release(row, "after") / row["path_after"]).read_bytes()
            ours = {mode: outcome[mode][row["path_before"]] for mode in MODES}
            yield {
                **row,
                **{
                    mode: asdict(upstream.compare(row, r.before, r.after, theirs)) for mode, r in ours.items()
                },
            }


def show_releases(rows: Sequence[Row]) -> None:
    """Print what the rewriting of releases came to, one line for each row, and what is wrong with it."""
    for row in rows:
        kinds = collections.Counter(problem["kind"] for problem in row["problems"])
        told = ", ".join(f"{kinds[kind]} {kind}" for kind in PROBLEMS if kinds[kind]) or "none"
        fixes = sum(row["fixes"].values())
        print(f"{row['release']:14} {row['mode']:12} {row['files']:6} {row['changed']:8} {fixes:6}  {told}")
        for problem in row["problems"]:
            print(f"    {problem['path']}: {problem['kind']}: {problem['detail'] or 'ruff would change it'}")


def show_comparison(rows: Sequence[Row]) -> None:
    """Print, for each mode, rule and project, how the rewrites compare with upstream's repairs."""
    rules, projects = (sorted({row[key] for row in rows}) for key in ("rule", "project"))
    groups = [(rule, [r for r in rows if r["rule"] == rule]) for rule in rules]
    groups += [
        (f"{project}, all rules", [r for r in rows if r["project"] == project]) for project in projects
    ]
    for mode in MODES:
        print(
            f"\n{mode:27} {'places':>6} {'rewritten':>9} {'equal':>6} {'same source':>11} {'other':>6}  equal"
        )
        for key, group in [*groups, ("all", list(rows))]:
            counts = collections.Counter(row[mode]["verdict"] for row in group)
            touched = len(group) - counts[upstream.UNTOUCHED]
            share = f"{counts[upstream.EQUAL] / touched:6.0%}" if touched else f"{'-':>6}"
            print(
                f"{key:27} {len(group):6} {touched:9} {counts[upstream.EQUAL]:6} "
                f"{counts[upstream.SAME_SOURCE]:11} {counts[upstream.OTHER]:6} {share}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "releases", nargs="*", help="releases to rewrite, as vllm-0.33.0 (default: all of vLLM)"
    )
    parser.add_argument("--only", choices=("releases", "history"), help="do one of the two parts")
    parser.add_argument("--corpus", type=Path, default=HERE, help="folder of fixes.jsonl and negatives.jsonl")
    parser.add_argument("--sources", type=Path, default=sources_folder(), help="unpacked releases")
    parser.add_argument("--save", type=Path, help="folder for results and patches, written as they come")
    args = parser.parse_args()

    fixes, negatives = load(args.corpus / "fixes.jsonl"), load(args.corpus / "negatives.jsonl")
    names = args.releases or [n for n in releases(fixes, negatives) if n.rsplit("-", 1)[0] == "vllm"]
    missing = [name for name in names if not (args.sources / name).is_dir()]
    if missing and args.only != "history":
        sys.exit(f"no sources of {', '.join(missing)} under {args.sources}: run fetch.py")
    if args.save:
        args.save.mkdir(parents=True, exist_ok=True)
    if args.only != "history":
        print(f"{'release':14} {'mode':12} {'files':>6} {'changed':>8} {'fixes':>6}  problems")
        done: list[Row] = []
        for row in (row for name in names for row in examined(args.sources / name, args.save)):
            done.append(row)
            show_releases([row])
            sys.stdout.flush()
            if args.save:
                save(args.save / "releases.jsonl", done)
    if args.only != "releases":
        rows = list(compared(fixes, args.sources))
        if args.save:
            save(args.save / "compared.jsonl", rows)
        show_comparison(rows)


if __name__ == "__main__":
    main()
