"""What a rule is: a visitor of LibCST nodes that asks the analysis and reports findings."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from dtypefix.findings import Evidence, Fix, Level, Span

if TYPE_CHECKING:
    import libcst as cst

    from dtypefix.analysis.module import Module
    from dtypefix.analysis.project import Project


class RuleContext(Protocol):
    """What the engine hands a rule for one file."""

    @property
    def module(self) -> Module:
        """The file being examined."""
        ...

    @property
    def project(self) -> Project:
        """Looks up other modules, classes and the pack's knowledge on demand."""
        ...

    def ast_of(self, node: cst.CSTNode) -> ast.AST | None:
        """The ``ast`` node that stands where a LibCST node of the visited unit stands."""
        ...

    def span(self, node: cst.CSTNode) -> Span:
        """The span of a LibCST node of the visited unit, parentheses around it left out."""
        ...

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
        """Record a finding at a node; exactly one of ``fix`` and ``unfixed_reason`` is given."""
        ...


class Rule:
    """The base class of every rule. One instance serves one file.

    A rule lives in a module ``some_name.py`` beside its page ``some_name.md``; the page's front
    matter holds what must be known before LibCST is imported (summary, group, needles), and the
    file's name, with dashes, is the rule's name. A rule defines ``visit_<LibCST node>`` and
    ``leave_<LibCST node>`` methods; a name that is no LibCST node is an error when the rule loads.
    The methods see only the *units* that hold a node named by :meth:`candidates`: the smallest
    statement around it, or the outermost function for a rule that visits functions or classes.
    """

    name: ClassVar[str] = ""

    def __init__(self, context: RuleContext) -> None:
        self.context = context
        self.module = context.module
        self.project = context.project

    def warn(
        self,
        at: cst.CSTNode | ast.AST,
        message: str,
        evidence: Sequence[Evidence | tuple[ast.AST, str]],
        reason: str,
        fix: Fix | None = None,
    ) -> None:
        """Report a warning: repaired by ``fix``, or, where there is none, unfixed for a reason.

        Args:
            at: the node at fault.
            message: what is wrong, in one sentence without a stop.
            evidence: what shows it; a node of this file and a text will do.
            reason: why it is not repaired, or what to do about it.
            fix: the repair.
        """
        shown = [
            e if isinstance(e, Evidence) else Evidence(self.module.path, getattr(e[0], "lineno", 1), e[1])
            for e in evidence
        ]
        self.context.report(
            at,
            level="warning",
            message=message,
            evidence=shown,
            fix=fix,
            unfixed_reason=None if fix else reason,
        )

    @classmethod
    def candidates(cls, module: Module) -> Iterable[ast.AST]:
        """The nodes that may be at fault: a cheap superset, from syntax alone.

        The default names the whole module, which makes LibCST parse all of it.
        """
        return (module.tree,)

    @classmethod
    def needs_functions(cls) -> bool:
        """Whether the visitor methods want whole functions, rather than the statements of candidates."""
        return any(
            name.endswith(("_FunctionDef", "_ClassDef", "_Module"))
            for name in dir(cls)
            if name.startswith(("visit_", "leave_"))
        )


def codemod_command(module: str, description: str) -> Callable[[str], type]:
    """A module ``__getattr__`` that makes the rule's LibCST codemod command when it is asked for.

    ``python -m libcst.tool codemod -x codemods.some_rule.Command`` finds the class; a scan, which has no
    use for it, does not pay for importing LibCST's codemod machinery.

    Args:
        module: the rule module's ``__name__``.
        description: what the command says of itself.
    """

    def make(name: str) -> type:
        if name != "Command":
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        from dtypefix.codemod import RuleCommand

        rule = module.rpartition(".")[2].replace("_", "-")
        command = type(name, (RuleCommand,), {"DESCRIPTION": description, "RULE": rule, "__module__": module})
        setattr(sys.modules[module], name, command)
        return command

    return make
