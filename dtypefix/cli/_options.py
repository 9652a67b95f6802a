"""The options that commands share, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from dtypefix.report import format_names

if TYPE_CHECKING:
    from dtypefix.api import Execution

Function = TypeVar("Function", bound=Callable[..., Any])

EXIT_CODES = "0 nothing to report, 1 findings above note, 2 could not do all that was asked."


def _names(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name for value in values for part in value.split(",") if (name := part.strip()))
    if values and not names and parameter.name == "select":
        # An empty variable of a script must not select what it would without the option.
        raise click.BadParameter("it names no rule", context, parameter)
    return names


def _jobs(context: click.Context, parameter: click.Parameter, value: str) -> int | None:
    if value == "auto":
        return None
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is neither a number above 0 nor auto")
    return int(value)


def _complete_rule(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Rules, groups and ``ALL``, for the last name of a comma-separated list."""
    from dtypefix.engine.catalog import ALL, load_catalog

    before, comma, last = incomplete.rpartition(",")
    catalog = load_catalog()
    names = (*catalog.by_name, *catalog.groups, ALL)
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


def _selector(option: str, text: str) -> Callable[[Function], Function]:
    return click.option(
        option, multiple=True, callback=_names, metavar="NAMES", help=text, shell_complete=_complete_rule
    )


def _stack(*decorators: Callable[[Any], Any]) -> Callable[[Function], Function]:
    def apply(function: Function) -> Function:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


@dataclass(frozen=True)
class TargetOptions:
    """What to read, as given on the command line."""

    paths: tuple[str, ...]
    installed: bool
    python: str | None
    stdin_filename: str | None
    vllm_root: str | None


@dataclass(frozen=True)
class RuleOptions:
    """Which rules to run, as given on the command line."""

    select: tuple[str, ...]
    extend_select: tuple[str, ...]
    ignore: tuple[str, ...]
    config: tuple[str, ...]
    isolated: bool
    extend_exclude: tuple[str, ...]
    force_exclude: bool


target_options = _stack(
    click.argument(
        "paths",
        nargs=-1,
        metavar="[PATH | NAME==VERSION[:SUBPATH]]...",
        shell_complete=lambda *_: [CompletionItem("", type="file")],
    ),
    click.option("--installed", is_flag=True, help="Read the vLLM that --python would import."),
    click.option("--python", metavar="PATH", help="The interpreter of --installed, not that on PATH."),
    click.option("--stdin-filename", metavar="FILE", help="Read standard input (PATH -) as this file."),
    click.option("--vllm-root", metavar="PATH|vllm==X", help="Where a plug-in's base classes come from."),
)

pack_options = _stack(
    click.option("--config", multiple=True, metavar="FILE|KEY=VAL", help="Use this file or TOML setting."),
    click.option("--isolated", is_flag=True, help="Ignore configuration files."),
)

rule_argument = click.argument("rule", metavar="RULE", shell_complete=_complete_rule)

rule_options = _stack(
    _selector("--select", "Run these rules or groups only, or ALL."),
    _selector("--extend-select", "Run these besides."),
    _selector("--ignore", "Leave these out."),
    pack_options,
    click.option(
        "--extend-exclude", multiple=True, callback=_names, metavar="PATHS", help="Leave these files out too."
    ),
    click.option("--force-exclude", is_flag=True, help="Leave excluded files out even where named."),
)

baseline_option = click.option("--baseline", metavar="FILE", help="The file of known findings.")

known_options = _stack(
    baseline_option,
    click.option("--no-baseline", is_flag=True, help="Report known findings too."),
)

change_options = _stack(
    click.option("--diff-base", metavar="REV", help="Report what changed since REV, and what it affects."),
    click.option("--staged", is_flag=True, help="Read what is staged, report what it changes."),
)

show_options = _stack(
    click.option("--show-files", is_flag=True, help="List what would be read, and stop."),
    click.option("--show-settings", is_flag=True, help="Print the settings in effect, and stop."),
)

report_options = _stack(
    click.option(
        "--format",
        "format_name",
        type=click.Choice(format_names()),
        default="text",
        metavar="FORM",
        help=f"{', '.join(format_names())}.",
    ),
    click.option(
        "--output-file",
        "output_files",
        multiple=True,
        metavar="[FORM:]FILE",
        help="Write a report there too (repeatable).",
    ),
    click.option("--show-notes", is_flag=True, help="List notes too (text)."),
    click.option("--show-evidence", is_flag=True, help="Show why, and what the fix is (text)."),
    click.option("--statistics", is_flag=True, help="Show only how many each rule has (text, json)."),
)


execution_options = _stack(
    click.option(
        "--jobs",
        callback=_jobs,
        default="auto",
        metavar="N|auto",
        help="Processes to work in; auto: as many as pay off.",
    ),
    click.option("--no-cache", is_flag=True, help="Neither read nor keep results of earlier runs."),
    click.option("--cache-dir", metavar="DIR", help="Where to keep them."),
    click.option("--profile", is_flag=True, help="Show on standard error where the time goes."),
)


def execution(jobs: int | None, no_cache: bool, cache_dir: str | None, profile: bool) -> Execution:
    """How the run is to do its work; one that is profiled takes nothing from the cache."""
    from dtypefix.api import Execution
    from dtypefix.cache.environment import default_folder
    from dtypefix.engine.profile import Profile

    if no_cache or profile:
        return Execution(jobs, None, Profile() if profile else None)
    return Execution(jobs, Path(cache_dir).absolute() if cache_dir else default_folder())


def split(options: dict[str, Any]) -> tuple[TargetOptions, RuleOptions]:
    """The target and the rule options out of a command's keyword arguments."""
    return (
        TargetOptions(**{name: options[name] for name in TargetOptions.__dataclass_fields__}),
        RuleOptions(**{name: options[name] for name in RuleOptions.__dataclass_fields__}),
    )
