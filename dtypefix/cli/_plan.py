"""From options and configuration to what a run reads, which rules run on it and where its imports lie."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dtypefix.api import Execution, InputFile, Options, Roots
from dtypefix.cli import _run
from dtypefix.cli._options import RuleOptions, TargetOptions
from dtypefix.config import patterns
from dtypefix.config.resolve import Configuration, Effective
from dtypefix.engine.catalog import Catalog, load_catalog
from dtypefix.errors import UserError
from dtypefix.sources.target import Target

if TYPE_CHECKING:
    from dtypefix.sources.changes import Staged


@dataclass(frozen=True)
class Plan:
    """Everything a run needs besides what is done with its results."""

    target: Target
    files: list[InputFile]
    options: Options
    roots: Roots
    effective: Effective
    staged: Staged | None = None
    execution: Execution = field(default_factory=Execution)

    @property
    def baseline(self) -> Path | None:
        """The file of known findings that the configuration names."""
        return self.effective.settings.baseline


def make(
    where: TargetOptions, rules: RuleOptions, *, unsafe_fixes: bool | None = None, staged: bool = False
) -> Plan:
    """What the options and the configuration come to. Options win over configuration.

    With ``staged`` the files are those of git's index, as they stand there.

    Raises:
        UserError: an option or a setting cannot be used, or nothing can be read.
    """
    return _Planner(where, rules).plan(unsafe_fixes, staged)


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
        patterns.check(rules.extend_exclude, "--extend-exclude")
        self._of_effective: dict[int, frozenset[str]] = {}
        self._force_exclude = rules.force_exclude or self._settings.force_exclude
        self._names(self.effective)  # a misspelled rule is said before anything is read

    def plan(self, unsafe_fixes: bool | None, staged: bool) -> Plan:
        for name, origin in self.effective.untrusted:
            print(
                f"dtypefix: {origin}: {name} names code to run and is not honoured in a scanned tree; "
                f"if you trust it, pass --config {origin}",
                file=sys.stderr,
            )
        settings = self._settings
        for table in settings.knowledge:
            if not os.path.exists(table):
                raise UserError(f"{self.effective.origins['knowledge']}: knowledge: there is no {table}")
        target = _run.find_target(self._where, self._keep, settings.respect_gitignore)
        index = self._index(target) if staged else None
        sources: dict[Path, bytes | None] = {}
        if index is not None:
            sources = index.sources()
            target = self._only_staged(target, sources)
        files = [self._planned(file, target, sources) for file in _run.input_files(target)]
        chosen = sorted(frozenset().union(*(file.rules for file in files if file.rules is not None)))
        options = Options(
            # Without a file, or with rules turned off in all of them, there is nothing to select from.
            select=tuple(chosen) or (self._catalog.builtin[0].name,),
            unsafe_fixes=settings.unsafe_fixes if unsafe_fixes is None else unsafe_fixes,
            packs=settings.rules,
            knowledge=settings.knowledge,
        )
        where = replace(self._where, vllm_root=self._where.vllm_root or settings.vllm_root)
        return Plan(target, files, options, _run.roots(target, where), self.effective, index)

    def _planned(self, file: InputFile, target: Target, staged: Mapping[Path, bytes | None]) -> InputFile:
        path = file.absolute
        if target.kind == "stdin" and not self._keep(path, None):
            # An editor expects its text back, so it is passed through rather than left out.
            return replace(file, rules=frozenset[str]())
        source = staged.get(path)
        return replace(
            file,
            source=file.source if source is None else source,
            named=path in target.named,
            rules=self._rules_for(path),
        )

    def _index(self, target: Target) -> Staged:
        from dtypefix.sources.changes import Staged, checkout_of

        if target.kind != "paths":
            raise UserError("--staged reads the files of a checkout; leave the other sources out")
        return Staged(checkout_of(target.checkout or self._here, "--staged"))

    def _only_staged(self, target: Target, sources: Mapping[Path, bytes | None]) -> Target:
        """The target's files that are in the index, those that only lie there included."""
        asked = [Path(os.path.normpath(self._here / path)) for path in self._where.paths]
        gone = [
            file
            for file in sources
            if not os.path.lexists(file)
            and (not asked or any(file.is_relative_to(path) for path in asked))
            and self._keep(file, self._here)
        ]
        kept = [file for file in target.files if file in sources]
        return replace(target, files=tuple(sorted((*kept, *gone))))

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


def catalog(config: Sequence[str], *, isolated: bool) -> Catalog:
    """The rules there are: those installed, and of the packs that a person's configuration names.

    Raises:
        UserError: the configuration or a pack cannot be used.
    """
    configuration = Configuration(_run.working_directory(), config, isolated=isolated)
    return load_catalog(configuration.for_run(project=False).settings.rules)


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
