"""From options to a call of the library, and from its results to a report and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dtypefix.api import InputFile, Options, Roots
from dtypefix.cli._options import TargetOptions
from dtypefix.errors import UserError
from dtypefix.findings import Skipped
from dtypefix.report import Report, RuleDoc, View, render
from dtypefix.report.outputs import Output, write_outputs
from dtypefix.sources.target import Target
from dtypefix.sources.targets import Keep, is_release, keep_all, resolve, stdin_target, vllm_root

STDIN = "-"
FOR_PEOPLE = ("text", "full", "concise", "grouped")


def working_directory() -> Path:
    """The directory in which the command was given.

    Raises:
        UserError: it does not exist any more.
    """
    try:
        return Path.cwd()
    except OSError:
        raise UserError("the working directory is gone: change to one that exists") from None


def names_release(options: TargetOptions) -> bool:
    """Whether a release is to be read."""
    return any(is_release(path) for path in options.paths)


def find_target(options: TargetOptions, keep: Keep = keep_all, respect_gitignore: bool = True) -> Target:
    """What to read, of its files those that ``keep`` lets pass.

    Raises:
        UserError: the options contradict each other, or nothing can be read.
    """
    if options.python and not options.installed:
        raise UserError("--python says which interpreter --installed asks; give both")
    if options.stdin_filename or STDIN in options.paths:
        return _standard_input(options)
    if not options.installed:
        return resolve(options.paths, keep=keep, respect_gitignore=respect_gitignore)
    if options.paths:
        raise UserError("--installed reads the whole installed package; leave the paths out")
    from dtypefix.sources.installed import installed_target

    target = installed_target(options.python)
    return replace(target, files=tuple(file for file in target.files if keep(file, target.root)))


def _standard_input(options: TargetOptions) -> Target:
    if not options.stdin_filename:
        raise UserError("source on standard input needs a name: --stdin-filename vllm/some/file.py -")
    if options.installed or any(path != STDIN for path in options.paths):
        raise UserError("--stdin-filename reads standard input alone; leave the other paths out")
    return stdin_target(options.stdin_filename)


def input_files(target: Target) -> list[InputFile]:
    """The files of a target as the library takes them; standard input is read here."""
    source = sys.stdin.buffer.read() if target.kind == "stdin" else None
    return [InputFile(path=target.display(file), absolute=file, source=source) for file in target.files]


def roots(target: Target, options: TargetOptions) -> Roots:
    """Where imports of the target's files are looked up."""
    vllm = (vllm_root(options.vllm_root),) if options.vllm_root else ()
    return Roots(search=(*target.search_roots, *vllm), base=target.root)


def rule_docs(options: Options) -> tuple[RuleDoc, ...]:
    """The pages of all rules that there are in a run."""
    from dtypefix.engine.catalog import load_catalog

    catalog = load_catalog(options.packs)
    rules = (*catalog.rules, *catalog.builtin)
    return tuple(RuleDoc(rule.name, rule.group, rule.summary, rule.page) for rule in rules)


def show(
    report: Report, format_name: str, view: View, outputs: Sequence[Output] = (), *, statistics: bool = False
) -> None:
    """Write the report to files and to standard output, and in text what was not read to standard error.

    With ``statistics`` standard output gets the counts by rule instead, as text or as JSON.

    Raises:
        UserError: counts are wanted in another form, or a file cannot be written.
    """
    write_outputs(outputs, report, view)
    if statistics:
        _show_statistics(report, format_name, view)
    else:
        render(format_name, report, view, sys.stdout)
    if format_name in FOR_PEOPLE:
        show_skipped(report)


def _show_statistics(report: Report, format_name: str, view: View) -> None:
    from dtypefix.report.statistics import write_json, write_table

    if format_name == "json":
        write_json(report.findings, sys.stdout)
    elif format_name in FOR_PEOPLE:
        write_table([f for f in report.findings if f.counts or view.show_notes], sys.stdout)
    else:
        raise UserError(f"--statistics comes as text or json, not as {format_name}")


def show_skipped(report: Report) -> None:
    """Say on standard error which files could not be read or written."""
    show_all_skipped(report.skipped)


def show_all_skipped(files: Sequence[Skipped]) -> None:
    """Say on standard error which files could not be read or written, and why."""
    sys.stdout.flush()
    for skipped in files:
        print(f"dtypefix: {skipped.path}: {skipped.reason}", file=sys.stderr)


def exit_status(report: Report, *, failed: bool) -> int:
    """2 if something could not be done, else 1 if the run ``failed``, else 0."""
    if report.skipped:
        return 2
    return 1 if failed else 0


def has_counting(findings: Sequence[object]) -> bool:
    """Whether a warning or an error is among the findings."""
    return any(getattr(finding, "counts", False) for finding in findings)
