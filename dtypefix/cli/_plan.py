"""From options and configuration to what a run reads, which rules run on it and where its imports lie."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from dtypefix.api import InputFile, Options, Roots
from dtypefix.cli import _run
from dtypefix.cli._options import RuleOptions, TargetOptions
from dtypefix.config import patterns
from dtypefix.config.resolve import Configuration, Effective
from dtypefix.engine.catalog import Catalog, load_catalog
from dtypefix.errors import UserError
from dtypefix.sources.target import Target


@dataclass(frozen=True)
class Plan:
    """Everything a run needs besides what is done with its results."""

    target: Target
    files: list[InputFile]
    options: Options
    roots: Roots
    effective: Effective


def make(where: TargetOptions, rules: RuleOptions, *, unsafe_fixes: bool | None = None) -> Plan:
    """What the options and the configuration come to. Options win over configuration.

    Raises:
        UserError: an option or a setting cannot be used, or nothing can be read.
    """
    return _Planner(where, rules).plan(unsafe_fixes)


class _Planner:
    def __init__(self, where: TargetOptions, rules: RuleOptions) -> None:
        self._where = where
        self._rules = rules
        self._here = _run.working_directory()
        self._configuration = Configuration(self._here, rules.config, isolated=rules.isolated)
        # A release or an installed package is not governed by the project one happens to stand in.
        self._project = not where.installed and not _run.names_release(where)
        self.effective = self._configuration.for_run(project=self._project)
        self._settings = self.effective.settings
        self._of_effective: dict[int, frozenset[str]] = {}
        self._force_exclude = rules.force_exclude or self._settings.force_exclude
        self._names(self.effective)  # a misspelled rule is said before anything is read

    def plan(self, unsafe_fixes: bool | None) -> Plan:
        for name, origin in self.effective.untrusted:
            print(
                f"dtypefix: {origin}: {name} names code to run and is not honoured in a scanned tree; "
                f"if you trust it, pass --config {origin}",
                file=sys.stderr,
            )
        settings = self._settings
        target = _run.find_target(self._where, self._keep, settings.respect_gitignore)
        files = [
            replace(file, named=file.absolute in target.named, rules=self._rules_for(file.absolute))
            for file in _run.input_files(target)
        ]
        chosen = sorted(frozenset().union(*(file.rules for file in files if file.rules is not None)))
        options = Options(
            # Without a file, or with rules turned off in all of them, there is nothing to select from.
            select=tuple(chosen) or (self._catalog.builtin[0].name,),
            unsafe_fixes=settings.unsafe_fixes if unsafe_fixes is None else unsafe_fixes,
            packs=settings.rules,
            knowledge=settings.knowledge,
        )
        where = replace(self._where, vllm_root=self._where.vllm_root or settings.vllm_root)
        return Plan(target, files, options, _run.roots(target, where), self.effective)

    @cached_property
    def _catalog(self) -> Catalog:
        return load_catalog(self._settings.rules)

    def _governing(self, file: Path) -> Effective:
        return self._configuration.for_file(file, project=self._project)

    def _rules_for(self, file: Path) -> frozenset[str]:
        effective = self._governing(file)
        key = id(effective)  # the configuration keeps one for each file it was read from
        if key not in self._of_effective:
            self._of_effective[key] = self._names(effective)
        names = self._of_effective[key]
        settings = effective.settings
        for pattern, selectors in settings.per_file_ignores.items():
            negated = pattern.startswith("!")
            matches = patterns.matcher((pattern.removeprefix("!"),))
            if matches(patterns.relative(file, settings.base)) != negated:
                names -= self._expand(selectors, effective, "per-file-ignores")
        return names

    def _names(self, effective: Effective) -> frozenset[str]:
        """The rules to run where settings hold, before ``per-file-ignores``."""
        settings, rules, catalog = effective.settings, self._rules, self._catalog
        if rules.select:
            chosen = catalog.select(rules.select, rules.extend_select, rules.ignore)
            return frozenset(rule.name for rule in chosen)
        select = settings.select if "select" in effective.origins else ()
        for key, names in (
            ("select", select),
            ("extend-select", settings.extend_select),
            ("ignore", settings.ignore),
        ):
            self._expand(names, effective, key)
        for names in settings.per_file_ignores.values():
            self._expand(names, effective, "per-file-ignores")
        # What the command line adds wins over what the configuration takes away.
        ignored = self._expand(settings.ignore, effective, "ignore") - catalog.expand(rules.extend_select)
        chosen = catalog.select(
            select, (*settings.extend_select, *rules.extend_select), (*ignored, *rules.ignore)
        )
        return frozenset(rule.name for rule in chosen)

    def _expand(self, selectors: Iterable[str], effective: Effective, key: str) -> set[str]:
        try:
            return self._catalog.expand(selectors)
        except UserError as error:
            raise UserError(f"{effective.origins[key]}: {key}: {error}") from None

    def _keep(self, file: Path, folder: Path | None) -> bool:
        if folder is None and not self._force_exclude:
            return True
        settings = self._governing(file).settings
        named = None if self._force_exclude else folder
        return not (
            patterns.excluded(file, settings.excluded, settings.base, named)
            or patterns.excluded(file, self._rules.extend_exclude, self._here, named)
        )


def show_files(plan: Plan) -> int:
    """List the files that the run would read."""
    for file in plan.files:
        print(file.path)
    return 0


def show_settings(where: TargetOptions, rules: RuleOptions) -> int:
    """Print the settings of the run as TOML, and where each was set.

    Raises:
        UserError: an option or a setting cannot be used.
    """
    from dtypefix.config.reference import as_toml

    print(as_toml(_Planner(where, rules).effective), end="")
    return 0
