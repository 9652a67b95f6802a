"""The library behind every front end: scan and rewrite as generators of results.

>>> from dtypefix.api import InputFile, Options, Roots, scan
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dtypefix import pool
from dtypefix.analysis.project import DEFAULT_LINE_LENGTH, Project
from dtypefix.cache.digests import digest_of
from dtypefix.engine.catalog import Catalog, RuleInfo, load_catalog, load_knowledge
from dtypefix.engine.examine import examine, problem_with_source, wanted
from dtypefix.engine.memory import relieve
from dtypefix.engine.profile import Profile
from dtypefix.engine.suppression import MARKER
from dtypefix.findings import FileResult, Finding, Skipped
from dtypefix.sources.lookup import FileLookup, module_name
from dtypefix.sources.read import Unreadable, read_source

if TYPE_CHECKING:
    from dtypefix.cache.store import Store
    from dtypefix.edits.fix_file import Accept, FixedFile


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


@dataclass(frozen=True)
class Execution:
    """How a run does its work; results do not depend on it.

    ``jobs`` is how many processes to use, None as many as pay off; more than one needs a main module that
    can be imported. ``cache`` is the folder of results of earlier runs, None for none. ``profile`` is told
    where the time goes, for which the run stays in one process.
    """

    jobs: int | None = 1
    cache: Path | None = None
    profile: Profile | None = None


_ALONE = Execution()


class _Run:
    """The rules and the look-ups that the files of one run share."""

    def __init__(
        self, files: Sequence[Path], unsaved: dict[Path, bytes], options: Options, roots: Roots
    ) -> None:
        self.catalog: Catalog = load_catalog(options.packs)
        self.rules: tuple[RuleInfo, ...] = self.catalog.select(
            options.select, options.extend_select, options.ignore
        )
        self.known = frozenset(self.catalog.by_name)
        self._chosen: dict[frozenset[str] | None, tuple[RuleInfo, ...]] = {None: self.rules}
        self.obey_ignores = options.obey_ignores
        self.roots = roots
        self.profile = Profile()
        self.lookup = FileLookup(roots.search, roots.base, files, unsaved)
        self.project = Project(self.lookup, partial(load_knowledge, self.catalog.rules, options.knowledge))

    def rules_for(self, file: InputFile) -> tuple[RuleInfo, ...]:
        names = file.rules
        if names not in self._chosen:
            assert names is not None
            self._chosen[names] = tuple(rule for rule in self.rules if rule.name in names)
        return self._chosen[names]

    def examine(self, file: InputFile, source: bytes) -> FileResult:
        """Run the rules over one version of a file."""
        rules = self.rules_for(file)
        settled = self.settled(file, source)
        if settled is not None:
            return settled
        name, is_package = module_name(file.absolute, self.roots.search)
        return examine(
            file.path,
            source,
            rules,
            self.project,
            name=name,
            is_package=is_package,
            known_rules=self.known,
            profile=self.profile,
            obey_ignores=self.obey_ignores,
        )

    def settled(self, file: InputFile, source: bytes) -> FileResult | None:
        """The result for a file that no rule looks at, None for any other."""
        if MARKER in source or wanted(source, self.rules_for(file)):
            return None
        problem = problem_with_source(source, parse=file.named)
        return FileResult(file.path, skipped=Skipped(file.path, problem) if problem else None)


@dataclass(frozen=True, slots=True)
class _Examined:
    """A result, and what it rests on: the digest of the file and what was asked about others."""

    result: FileResult
    digest: str
    asked: frozenset[str]


def _examiner(files: Sequence[Path], options: Options, roots: Roots) -> Callable[[InputFile], _Examined]:
    """What examines files of a run one after the other, in this process or in one made for it."""
    return partial(_examined, _Run(files, {}, options, roots))


def _examined(run: _Run, file: InputFile) -> _Examined:
    source = _read(file)
    if isinstance(source, Skipped):
        return _Examined(FileResult(file.path, skipped=source), "", frozenset())
    result = run.examine(file, source)
    examined = _Examined(result, digest_of(source), frozenset(run.project.asked))
    relieve(run.project)
    return examined


def _read(file: InputFile) -> bytes | Skipped:
    if file.source is not None:
        return file.source
    try:
        return read_source(file.absolute)
    except Unreadable as error:
        return Skipped(file.path, str(error))


def scan(
    files: Sequence[InputFile], options: Options, roots: Roots, execution: Execution = _ALONE
) -> Iterator[FileResult]:
    """Examine files, in the order given.

    Yields:
        One result a file; a file that cannot be examined has ``skipped`` set.

    Raises:
        UserError: a rule or group is unknown, a pack does not load, or a process of the run died.
    """
    yield from _scan(_run_of(files, options, roots, execution), files, options, execution)


def _run_of(files: Sequence[InputFile], options: Options, roots: Roots, execution: Execution) -> _Run:
    unsaved = {file.absolute: file.source for file in files if file.source is not None}
    run = _Run([file.absolute for file in files], unsaved, options, roots)
    if execution.profile is not None:
        run.profile = execution.profile
    return run


def _scan(
    run: _Run, files: Sequence[InputFile], options: Options, execution: Execution
) -> Iterator[FileResult]:
    unsaved = any(file.source is not None for file in files)
    store = None if unsaved or execution.cache is None else _store(run, options, execution.cache)
    with run.profile.stage("search bytes and cache"):
        known = {number: found for number, file in enumerate(files) if (found := _quick(run, file, store))}
    todo = [file for number, file in enumerate(files) if number not in known]
    count = 1 if unsaved or execution.profile is not None else pool.processes(execution.jobs, len(todo))
    if count > 1:
        arguments = ([file.absolute for file in files], options, run.roots)
        examined: Iterator[_Examined] = pool.run(_examiner, arguments, todo, count)
    else:
        examined = (_examined(run, file) for file in todo)
    for number, file in enumerate(files):
        result = known.pop(number, None)
        if result is None:
            new = next(examined)
            result = new.result
            if store is not None:
                store.put(result, _variant(run, file), new.digest, new.asked)
        yield result
    next(examined, None)  # lets the processes end
    if store is not None:
        store.save()


def _store(run: _Run, options: Options, folder: Path) -> Store:
    from dtypefix.cache.environment import key_of
    from dtypefix.cache.store import Store

    places = (run.roots.base, *run.roots.search)
    return Store(folder, key_of(run.catalog.by_name.values(), options.knowledge, places), run.lookup)


def _variant(run: _Run, file: InputFile) -> str:
    """What decides about a file's result besides its content and the tree around it."""
    names = ",".join(rule.name for rule in run.rules_for(file))
    marks = f"{'!' if file.named else ''}{'' if run.obey_ignores else '#'}"
    return digest_of(names.encode()) + marks


def _quick(run: _Run, file: InputFile, store: Store | None) -> FileResult | None:
    """The result for a file that an earlier run knows or that no rule looks at."""
    if store is not None:
        known = store.get(file.path, file.absolute, _variant(run, file))
        if known is not None:
            return known
    source = _read(file)
    if isinstance(source, Skipped):
        return FileResult(file.path, skipped=source)
    run.profile.counts["files"] += 1
    run.profile.counts["bytes"] += len(source)
    settled = run.settled(file, source)
    if settled is not None and store is not None:
        store.put(settled, _variant(run, file), store.digests.of(file.absolute, source), ())
    return settled


def rewrite(
    files: Sequence[InputFile],
    options: Options,
    roots: Roots,
    accept: Accept | None = None,
    execution: Execution = _ALONE,
) -> Iterator[FixedFile]:
    """Fix files in memory, in the order given; nothing is written.

    All files are examined before the first is fixed, so that what is found in one does not depend on which
    others were fixed before. ``accept`` is asked of each fix, with the file as it then is, whether to
    apply it.

    Yields:
        One result a file. ``remaining.skipped`` is set where the file could not be examined, and
        ``problem`` where its fixes failed a check, so that it was left as it was.

    Raises:
        UserError: a rule or group is unknown, a pack does not load, or a process of the run died.
    """
    from dtypefix.edits.fix_file import FixedFile, fix_file

    run = _run_of(files, options, roots, execution)
    applicable = {"safe", "unsafe"} if options.unsafe_fixes else {"safe"}
    for file, first in zip(files, list(_scan(run, files, options, execution)), strict=True):
        source = b"" if first.skipped is not None else _read(file)
        if isinstance(source, Skipped):
            first, source = FileResult(file.path, skipped=source), b""
        if first.skipped is not None:
            yield FixedFile(file.path, source, source, (), first)
            continue
        with run.profile.stage("fix"):
            fixed = fix_file(file.path, source, partial(run.examine, file), applicable, accept, first)
        yield fixed
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
    from dtypefix.edits.fix_file import FixedFile
    from dtypefix.edits.ignores import checked_reason, silence_file

    reason = checked_reason(reason)
    run = _run_of(files, options, roots, _ALONE)
    for file in files:
        source = _read(file)
        if isinstance(source, Skipped):
            yield FixedFile(file.path, b"", b"", (), FileResult(file.path, skipped=source))
        else:
            width = run.project.lookup.line_length(file.path) or DEFAULT_LINE_LENGTH
            yield silence_file(file.path, source, partial(run.examine, file), wanted, reason, width)
