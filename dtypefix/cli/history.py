"""``dtypefix history``."""

from __future__ import annotations

import gc
import sys
from typing import Any

import click

from dtypefix.cli._options import RuleOptions, rule_options
from dtypefix.errors import UserError


@click.command("history", epilog="Exit status: 0, or 2 if it could not do all that was asked.")
@click.argument("project")
@click.argument("span", metavar="A..B|A,B,...")
@click.option("--every", is_flag=True, help="Each release of the span, not the last patch of each minor one.")
@click.option("--offline", is_flag=True, help="Only releases that are already in the cache.")
@click.option("--show-notes", is_flag=True, help="Count notes too.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json", "csv", "svg", "html"]),
    default="text",
    help="Form of the history.",
)
@click.option(
    "--output-file", "output_files", multiple=True, metavar="FILE", help="Write it to FILE.svg, .html… too."
)
@rule_options
def command(
    project: str,
    span: str,
    every: bool,
    offline: bool,
    show_notes: bool,
    format_name: str,
    output_files: tuple[str, ...],
    **options: Any,
) -> int:
    """Count the findings of each rule over the releases of a project.

    PROJECT is vllm, sglang or vllm-ascend. Numbers that grew since the release before are red, those that
    shrank green. Releases are fetched once and cached.
    """
    from dtypefix.cli._sides import found_in
    from dtypefix.compare import chart
    from dtypefix.compare.history import chosen_versions, history
    from dtypefix.report.outputs import write_whole
    from dtypefix.sources.releases import PACKAGES, kept_versions, published_versions

    outputs = [(chart.format_of(name), name) for name in output_files]
    if project not in PACKAGES:
        raise UserError(f"{project}: unknown project; known are {', '.join(PACKAGES)}")
    known = kept_versions(project) if offline else published_versions(project)
    versions = chosen_versions(span, known, every=every)
    rules = RuleOptions(**options)
    found, failed = [], False
    for version in versions:
        release = f"{project}=={version}"
        result = found_in(release, rules, label=release)
        counted = [finding for finding in result.findings if finding.counts or show_notes]
        found.append((str(version), [finding.rule for finding in counted]))
        gc.collect()  # a release's trees hold each other: several hundred MB until someone looks
        for skipped in result.skipped:
            failed = True
            print(f"dtypefix: {release}: {skipped.path}: {skipped.reason}", file=sys.stderr)
    counts = history(project, found)
    for form, name in outputs:
        with write_whole(name) as out:
            chart.write(counts, form, out)
    chart.write(counts, format_name, sys.stdout)
    return 2 if failed else 0
