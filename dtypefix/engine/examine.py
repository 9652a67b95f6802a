"""One file: bytes in, findings out."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from dtypefix.analysis.recursion import deep_recursion
from dtypefix.analysis.walking import walk
from dtypefix.engine import suppression
from dtypefix.engine.catalog import RuleInfo
from dtypefix.engine.profile import Profile
from dtypefix.engine.units import plain_encoding, unit_nodes, unit_of
from dtypefix.findings import Edit, Evidence, FileResult, Finding, Fix, Level, Skipped, Span, fingerprinted

if TYPE_CHECKING:
    import libcst as cst

    from dtypefix.analysis.module import Module
    from dtypefix.analysis.project import Project
    from dtypefix.engine.rule import Rule
    from dtypefix.engine.units import Unit
    from dtypefix.engine.visit import Trace

_SPACE = re.compile(r"\s+")
# PEP 263: an encoding may be declared in one of the first two lines.
_COOKIE = re.compile(rb"(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=]")


def wanted(source: bytes, rules: Sequence[RuleInfo]) -> list[RuleInfo]:
    """The rules that have something to look for in a file, by a search of its bytes."""
    return [rule for rule in rules if any(needle in source for needle in rule.needles)]


class FileContext:
    """What the rules of one file share; see :class:`dtypefix.engine.rule.RuleContext`."""

    def __init__(self, module: Module, project: Project) -> None:
        self.module = module
        self.project = project
        self.findings: list[Finding] = []
        self.rule: RuleInfo | None = None
        self._unit: Unit | None = None
        self._trace: Trace | None = None

    def enter(self, unit: Unit, trace: Trace) -> None:
        """Start on a unit."""
        self._unit, self._trace = unit, trace
        self.__dict__.pop("_by_position", None)

    @cached_property
    def _by_position(self) -> dict[tuple[int, int], list[ast.AST]]:
        assert self._unit is not None
        found: dict[tuple[int, int], list[ast.AST]] = {}
        for node in walk(self._unit.node):
            if hasattr(node, "lineno"):
                found.setdefault(self.module.byte_range(node), []).append(node)
        return found

    def span(self, node: cst.CSTNode) -> Span:
        """The span of a LibCST node of the current unit."""
        return self.module.span_of_bytes(*self._byte_range(node))

    def _byte_range(self, node: cst.CSTNode) -> tuple[int, int]:
        unit, trace, encoding = self._unit, self._trace, self._encoding
        assert unit is not None
        assert trace is not None
        start, end = trace.place(node)
        return unit.offset(start, encoding), unit.offset(end, encoding)

    @cached_property
    def _encoding(self) -> str:
        return plain_encoding(self.module.encoding)

    def ast_of(self, node: cst.CSTNode) -> ast.AST | None:
        """The ``ast`` node where a LibCST node stands; None when the two do not correspond."""
        import libcst as cst

        found = self._by_position.get(self._byte_range(node), [])
        if not found and isinstance(node, cst.Tuple):
            return None
        kind = ast.expr if isinstance(node, cst.BaseExpression) else ast.stmt
        exact = [n for n in found if type(n).__name__ == type(node).__name__]
        general = [n for n in found if isinstance(n, kind)]
        return (exact or general or [None])[0]

    def report(
        self,
        at: cst.CSTNode | ast.AST,
        *,
        level: Level,
        message: str,
        evidence: Sequence[Evidence] = (),
        fix: Fix | None = None,
        unfixed_reason: str | None = None,
    ) -> None:
        """Record a finding of the current rule."""
        assert self.rule is not None
        assert (fix is None) != (unfixed_reason is None), "a finding has a fix or says why it has none"
        module = self.module
        if fix is not None and any(_loses_comment(module.source, edit) for edit in fix.edits):
            fix, unfixed_reason = None, "a comment stands inside the code that the fix would replace"
        node = at if isinstance(at, ast.AST) else self.ast_of(at)
        span = module.span(at) if isinstance(at, ast.AST) else self.span(at)
        code = module.source[span.start_byte : span.end_byte].decode(module.encoding)
        self.findings.append(
            Finding(
                rule=self.rule.name,
                group=self.rule.group,
                level=level,
                path=module.path,
                span=span,
                symbol=module.symbol(node) if node is not None else "",
                message=message,
                evidence=tuple(evidence),
                code=_SPACE.sub(" ", code),
                fix=fix,
                unfixed_reason=unfixed_reason,
            )
        )


def _loses_comment(source: bytes, edit: Edit) -> bool:
    return source[edit.start_byte : edit.end_byte].count(b"#") > edit.replacement.count("#")


def examine(
    path: str,
    source: bytes,
    rules: Sequence[RuleInfo],
    project: Project,
    *,
    name: str = "",
    is_package: bool = False,
    known_rules: frozenset[str] = frozenset(),
    obey_ignores: bool = True,
    profile: Profile | None = None,
) -> FileResult:
    """Run rules over one file.

    Args:
        path: how reports name the file.
        source: its bytes as they lie on disk.
        rules: the rules to run.
        project: look-up of other files, shared by a run.
        name: dotted module name, ``""`` when the file lies in no package.
        is_package: whether it is an ``__init__.py``.
        known_rules: names of all rules, selected or not, which a suppression may name.
        obey_ignores: whether ignore comments silence anything; if not, nothing is said of them either.
        profile: is told of the time and the work.

    Returns:
        The findings, sorted and fingerprinted, or the reason why the file could not be examined.

    Raises:
        UserError: a rule does not load.
    """
    active = [rule for rule in wanted(source, rules) if not rule.builtin]
    if not active and not (obey_ignores and suppression.MARKER in source):
        return FileResult(path)
    with deep_recursion():
        result = _examine(path, source, active, project, name, is_package, profile or Profile())
        if isinstance(result, FileResult):
            return result
        kept, suppressed = result.findings, list[Finding]()
        if obey_ignores:
            selected = {rule.name for rule in rules}
            kept, suppressed = suppression.apply(
                result.module, result.findings, selected, known_rules or selected
            )
    return FileResult(path, tuple(fingerprinted(kept)), tuple(fingerprinted(suppressed)))


def _examine(
    path: str,
    source: bytes,
    active: Sequence[RuleInfo],
    project: Project,
    name: str,
    is_package: bool,
    profile: Profile,
) -> FileContext | FileResult:
    """The context with what the rules found, or a result that says why the file cannot be examined."""
    from dtypefix.analysis.module import Module

    project.begin()
    try:
        with profile.stage("parse with ast"):
            module = Module(path, source, name, is_package)
        text_error = None
        module.source.decode(module.encoding)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        text_error = _parse_problem(error)
    if text_error is not None:
        return FileResult(path, skipped=Skipped(path, text_error))
    profile.counts["files parsed"] += 1
    profile.counts["lines parsed"] += len(module.lines)
    project.add(module)
    context = FileContext(module, project)
    if active:
        problem = _run(context, active, profile)
        if problem is not None:
            return FileResult(path, skipped=Skipped(path, problem))
    return context


def problem_with_source(source: bytes, *, parse: bool) -> str | None:
    """Why bytes are no Python source, or None; without ``parse`` only their encoding is looked at."""
    try:
        if parse:
            with deep_recursion():
                ast.parse(source)
        elif not source.isascii() and not _COOKIE.match(source):
            source.decode()
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return _parse_problem(error)
    return None


def _run(context: FileContext, active: Sequence[RuleInfo], profile: Profile) -> str | None:
    """Run the rules; returns why the file cannot be examined, if so."""
    module = context.module
    by_node: dict[ast.AST, list[Rule]] = {}
    for info in active:
        with profile.stage("load rules"):
            cls = info.load()
        with profile.stage("find candidates"), profile.rule(info.name):
            nodes = unit_nodes(module, cls.candidates(module), whole_functions=cls.needs_functions())
        if nodes:
            rule = cls(_Reporting(context, info))
            for node in nodes:
                by_node.setdefault(node, []).append(rule)
    if not by_node:
        return None
    with profile.stage("load LibCST"):
        import libcst as cst

        from dtypefix.engine.visit import Handlers, Trace, handlers_of

    handlers: dict[tuple[int, ...], tuple[Handlers, Handlers]] = {}
    for node, rules in by_node.items():
        unit = unit_of(module, node)
        try:
            with profile.stage("parse with LibCST"):
                tree = cst.parse_module(unit.text)
        except (cst.ParserSyntaxError, SyntaxError, RecursionError) as error:
            return _parse_problem(error)
        key = tuple(id(rule) for rule in rules)
        if key not in handlers:
            handlers[key] = handlers_of(rules)
        with profile.stage("place nodes"):
            trace = Trace(tree, *handlers[key])
        profile.counts["units"] += 1
        profile.counts["lines in units"] += unit.lines
        profile.counts["nodes"] += trace.nodes
        context.enter(unit, trace)
        with profile.stage("visit"):
            trace.run(profile)
    return None


class _Reporting:
    """A file's context as one rule sees it: what it reports is filed under its name."""

    def __init__(self, context: FileContext, rule: RuleInfo) -> None:
        self._context = context
        self._rule = rule
        self.module = context.module
        self.project = context.project
        self.ast_of = context.ast_of
        self.span = context.span

    def report(
        self,
        at: cst.CSTNode | ast.AST,
        *,
        level: Level,
        message: str,
        evidence: Sequence[Evidence] = (),
        fix: Fix | None = None,
        unfixed_reason: str | None = None,
    ) -> None:
        self._context.rule = self._rule
        self._context.report(
            at, level=level, message=message, evidence=evidence, fix=fix, unfixed_reason=unfixed_reason
        )


def _parse_problem(error: BaseException) -> str:
    if isinstance(error, RecursionError | MemoryError):
        return "nested too deeply to parse"
    if isinstance(error, UnicodeDecodeError):
        return f"not valid {error.encoding} at byte {error.start}"
    if isinstance(error, SyntaxError):
        message = (error.msg or "invalid syntax").removeprefix("(unicode error) ")
        return (
            f"syntax error at line {error.lineno}: {message}" if error.lineno else f"syntax error: {message}"
        )
    return f"cannot be parsed: {str(error).splitlines()[0]}"
