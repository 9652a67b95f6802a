"""The library behind every front end: scan and rewrite as generators of results.

>>> from dtypefix.api import InputFile, Options, Roots, scan
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dtypefix.analysis.project import DEFAULT_LINE_LENGTH, Project
from dtypefix.edits.fix_file import Accept, FixedFile, fix_file
from dtypefix.engine.catalog import Catalog, RuleInfo, load_catalog, load_knowledge
from dtypefix.engine.examine import examine, problem_with_source, wanted
from dtypefix.engine.memory import relieve
from dtypefix.engine.suppression import MARKER
from dtypefix.findings import FileResult, Finding, Skipped
from dtypefix.sources.lookup import FileLookup, module_name
from dtypefix.sources.read import Unreadable, read_source


@dataclass(frozen=True, slots=True)
class Options:
    """What to look for and what to apply.

    ``select``, ``extend_select`` and ``ignore`` take rule names, group names and ``ALL``;
    ``packs`` are rule packages besides the installed ones, or their folders as absolute paths;
    ``knowledge`` are further tables of facts, files or folders of them. Without ``obey_ignores``
    comments silence nothing.
    """

    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    unsafe_fixes: bool = False
    packs: tuple[str, ...] = ()
    knowledge: tuple[Path, ...] = ()
    obey_ignores: bool = True


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file: ``path`` as reports name it, where it lies, and its bytes if they are not on disk.

    ``named`` says that a person asked for this very file, so that it has to be Python even where no rule
    looks at it. ``rules`` are the names of the rules to run on it, of those selected; None means all.
    """

    path: str
    absolute: Path
    source: bytes | None = None
    named: bool = False
    rules: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Roots:
    """Where imports are looked up, best first, and what reported paths are relative to."""

    search: tuple[Path, ...]
    base: Path


class _Run:
    """The rules and the look-ups that the files of one run share."""

    def __init__(self, files: Sequence[InputFile], options: Options, roots: Roots) -> None:
        catalog: Catalog = load_catalog(options.packs)
        self.rules: tuple[RuleInfo, ...] = catalog.select(
            options.select, options.extend_select, options.ignore
        )
        self.known = frozenset(catalog.by_name)
        self._chosen: dict[frozenset[str] | None, tuple[RuleInfo, ...]] = {None: self.rules}
        self.obey_ignores = options.obey_ignores
        self.roots = roots
        unsaved = {file.absolute: file.source for file in files if file.source is not None}
        lookup = FileLookup(roots.search, roots.base, [f.absolute for f in files], unsaved)
        self.project = Project(lookup, partial(load_knowledge, catalog.rules, options.knowledge))

    def _rules_for(self, file: InputFile) -> tuple[RuleInfo, ...]:
        names = file.rules
        if names not in self._chosen:
            assert names is not None
            self._chosen[names] = tuple(rule for rule in self.rules if rule.name in names)
        return self._chosen[names]

    def examine(self, file: InputFile, source: bytes) -> FileResult:
        """Run the rules over one version of a file."""
        rules = self._rules_for(file)
        if MARKER not in source and not wanted(source, rules):
            problem = problem_with_source(source, parse=file.named)
            return FileResult(file.path, skipped=Skipped(file.path, problem) if problem else None)
        name, is_package = module_name(file.absolute, self.roots.search)
        return examine(
            file.path,
            source,
            rules,
            self.project,
            name=name,
            is_package=is_package,
            known_rules=self.known,
            obey_ignores=self.obey_ignores,
        )


def _read(file: InputFile) -> bytes | Skipped:
    if file.source is not None:
        return file.source
    try:
        return read_source(file.absolute)
    except Unreadable as error:
        return Skipped(file.path, str(error))


def scan(files: Sequence[InputFile], options: Options, roots: Roots) -> Iterator[FileResult]:
    """Examine files, in the order given.

    Yields:
        One result a file; a file that cannot be examined has ``skipped`` set.

    Raises:
        UserError: a rule or group is unknown, or a pack does not load.
    """
    run = _Run(files, options, roots)
    for file in files:
        source = _read(file)
        if isinstance(source, Skipped):
            yield FileResult(file.path, skipped=source)
        else:
            yield run.examine(file, source)
            relieve(run.project)


def rewrite(
    files: Sequence[InputFile], options: Options, roots: Roots, accept: Accept | None = None
) -> Iterator[FixedFile]:
    """Fix files in memory, in the order given; nothing is written.

    ``accept`` is asked of each fix, with the file as it then is, whether to apply it.

    Yields:
        One result a file. ``remaining.skipped`` is set where the file could not be examined, and
        ``problem`` where its fixes failed a check, so that it was left as it was.

    Raises:
        UserError: a rule or group is unknown, or a pack does not load.
    """
    run = _Run(files, options, roots)
    applicable = {"safe", "unsafe"} if options.unsafe_fixes else {"safe"}
    for file in files:
        source = _read(file)
        if isinstance(source, Skipped):
            yield FixedFile(file.path, b"", b"", (), FileResult(file.path, skipped=source))
        else:
            yield fix_file(file.path, source, partial(run.examine, file), applicable, accept)
            relieve(run.project)


def silence(
    files: Sequence[InputFile],
    options: Options,
    roots: Roots,
    reason: str,
    wanted: Callable[[tuple[Finding, ...]], tuple[Finding, ...]] | None = None,
) -> Iterator[FixedFile]:
    """Add ignore comments to files in memory, in the order given; nothing is written.

    Args:
        files: what to read.
        options: which rules to run.
        roots: where imports are looked up.
        reason: why the findings may stay; it stands in every comment.
        wanted: those of one file's findings that are to be silenced; all without it.

    Yields:
        One result a file; what is ``fixed`` is empty.

    Raises:
        UserError: the reason cannot stand in a comment, a rule or group is unknown, or a pack does not load.
    """
    from dtypefix.edits.ignores import checked_reason, silence_file

    reason = checked_reason(reason)
    run = _Run(files, options, roots)
    for file in files:
        source = _read(file)
        if isinstance(source, Skipped):
            yield FixedFile(file.path, b"", b"", (), FileResult(file.path, skipped=source))
        else:
            width = run.project.lookup.line_length(file.path) or DEFAULT_LINE_LENGTH
            yield silence_file(file.path, source, partial(run.examine, file), wanted, reason, width)
