"""Pages of the site that are made from the code: one for each rule, one for each command without its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from dtypefix.cli import COMMANDS
from dtypefix.engine.catalog import DEFAULT_GROUPS, RuleInfo, load_catalog


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lay out the navigation, whose rules and commands the code knows."""
    rules = [{rule.name: f"rules/{rule.name}.md"} for rule in _rules()]
    commands = [{name: f"commands/{name}.md"} for name in COMMANDS]
    config.nav = [
        {"Start": "index.md"},
        {"Commands": ["commands/index.md", *commands]},
        {"Rules": ["rules/index.md", *rules]},
        {
            "Setting up": [
                {"Configuration": "configuration.md"},
                {"Known findings": "known-findings.md"},
                {"Only what changed": "changes.md"},
                {"Reports": "reports.md"},
                {"Hooks and CI": "ci.md"},
                {"Editors": "editors.md"},
                {"In the shell": "shell.md"},
            ]
        },
        {
            "Writing rules": [
                {"Your own rules": "own-rules.md"},
                {"The dtype analysis": "analysis.md"},
            ]
        },
        {
            "How it is known to work": [
                {"Proofs": "proofs.md"},
                {"Recall and precision": "measured.md"},
                {"Speed": "speed.md"},
            ]
        },
    ]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    made = {"rules/index.md": _index()}
    made |= {f"rules/{rule.name}.md": _page(rule) for rule in _rules()}
    for name in COMMANDS:
        if files.get_file_from_path(f"commands/{name}.md") is None:
            made[f"commands/{name}.md"] = f"# {name}\n"
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put what ``--help`` says of a command at the end of the command's page."""
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    if folder != "commands" or name not in COMMANDS:
        return markdown
    # mkdocs-click 0.9 shows an internal value of click 8.3 as the default of every option.
    command: click.Command = import_module(f"dtypefix.cli.{name}").command
    texts = list(_help(command, f"dtypefix {name}"))
    blocks = "\n\n".join(f"```text\n{text.rstrip()}\n```" for text in texts)
    return f"{markdown.rstrip()}\n\n## Options\n\n{blocks}\n"


def _help(command: click.Command, name: str) -> Iterator[str]:
    with click.Context(command, info_name=name, terminal_width=84) as context:
        yield command.get_help(context)
    if isinstance(command, click.Group):
        for part, inner in command.commands.items():
            yield from _help(inner, f"{name} {part}")


def _rules() -> tuple[RuleInfo, ...]:
    catalog = load_catalog()
    return (*catalog.rules, *catalog.builtin)


def _state(rule: RuleInfo) -> str:
    return "on by default" if rule.builtin or rule.group in DEFAULT_GROUPS else f"`--select {rule.group}`"


def _index() -> str:
    lines = [
        "# Rules",
        "",
        "What runs without `--select` is the group `core` and the rules about ignore comments. A fix is",
        "[safe, unsafe or manual](../index.md#what-safe-means).",
        "",
        "| rule | finds | fix | |",
        "|---|---|---|---|",
    ]
    for rule in sorted(_rules(), key=lambda rule: (rule.group != "core", rule.group, rule.name)):
        fix = ", ".join(rule.fix)
        lines.append(f"| [{rule.name}]({rule.name}.md) | {rule.summary} | {fix} | {_state(rule)} |")
    return "\n".join(lines) + "\n"


def _page(rule: RuleInfo) -> str:
    """A rule's page with its front matter as a box below the title, and its cases as they are tested."""
    facts = [f"Group `{rule.group}`, {_state(rule)}", f"fix: {', '.join(rule.fix)}"]
    if rule.probes:
        facts.append(f"shown right by the probes {', '.join(f'`{probe}`' for probe in rule.probes)}")
    box = f'\n!!! abstract "{rule.summary[:1].upper()}{rule.summary[1:]}"\n    {"; ".join(facts)}.\n'
    title, _, body = rule.page.partition("\n")
    body = re.sub(r'^(```python title=")with ', r"\1beside it: ", body, flags=re.MULTILINE)
    return f"{title}\n{box}{body}"
