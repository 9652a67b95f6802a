"""Where a value ends up under a telling name: an attribute, a variable, a keyword, a parameter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dtypefix.analysis.module import FunctionNode, Module
from dtypefix.analysis.project import Project
from dtypefix.analysis.walking import walk


@dataclass(frozen=True, slots=True)
class Sink:
    """A name that a value gets: ``direct`` unless it passes through an attribute or by position."""

    name: str
    line: int
    direct: bool


class NamedSinks:
    """Follows values of one module to names that match a pattern.

    Args:
        module: the file.
        project: resolves called functions, for arguments given by position.
        pattern: what the name of an attribute, variable, keyword or default must match.
        parameter: what the name of a parameter filled by position must match.
    """

    def __init__(
        self, module: Module, project: Project, pattern: re.Pattern[str], parameter: re.Pattern[str]
    ) -> None:
        self.module = module
        self.project = project
        self.pattern = pattern
        self.parameter = parameter

    def of(self, value: ast.expr) -> Sink | None:
        """The first such name that ``value``, or a conditional with it as an arm, is given."""
        below: ast.AST = value
        for parent in self.module.ancestors(value):
            if isinstance(parent, ast.IfExp | ast.BoolOp) and below is not getattr(parent, "test", None):
                below = parent
            elif isinstance(parent, ast.keyword):
                return self._named(parent.arg, value)
            elif isinstance(parent, ast.Call) and below in parent.args:
                return self._by_position(parent, below)
            elif isinstance(parent, ast.arguments):
                return self._named(_default_of(parent, below), value)
            elif isinstance(parent, ast.Assign):
                return self._assigned(value, parent, parent.targets)
            elif isinstance(parent, ast.AnnAssign | ast.NamedExpr):
                return self._assigned(value, parent, [parent.target])
            elif isinstance(parent, ast.Return):
                function = self.module.enclosing_function(parent)
                return self._named(function.name if function else None, value)
            else:
                return None
        return None

    def _named(self, name: str | None, at: ast.expr, direct: bool = True) -> Sink | None:
        return Sink(name, at.lineno, direct) if name and self.pattern.search(name) else None

    def _assigned(self, value: ast.expr, stmt: ast.AST, targets: list[ast.expr]) -> Sink | None:
        for target in targets:
            found = self._named(target_name(target), value)
            found = found or next(self._passed_on(stmt, target), None)
            if found is not None:
                return found
        return None

    def _passed_on(self, stmt: ast.AST, target: ast.expr) -> Iterator[Sink]:
        """The names that a local (in its function) or an attribute (in its class) is given later."""
        local = isinstance(target, ast.Name)
        scope = self.module.enclosing_function(stmt) if local else self.module.enclosing_class(stmt)
        text = ast.unparse(target)
        for node in walk(scope or self.module.tree):
            if isinstance(node, ast.Assign) and node is not stmt and _may_be(node.value, text):
                for other in node.targets:
                    if (found := self._named(target_name(other), node.value, local)) is not None:
                        yield found
            elif isinstance(node, ast.keyword) and _may_be(node.value, text):
                if (found := self._named(node.arg, node.value, local)) is not None:
                    yield found

    def _by_position(self, call: ast.Call, argument: ast.AST) -> Sink | None:
        function = self.project.resolve(self.module, call.func)
        if function is None or not isinstance(function.node, FunctionNode):
            return None
        names = [a.arg for a in (*function.node.args.posonlyargs, *function.node.args.args)]
        index = next((i for i, a in enumerate(call.args) if a is argument), len(names))
        if index < len(names) and self.parameter.search(names[index]):
            return Sink(names[index], call.lineno, False)
        return None


def target_name(target: ast.expr) -> str | None:
    """The last name of a variable or attribute."""
    if isinstance(target, ast.Name):
        return target.id
    return target.attr if isinstance(target, ast.Attribute) else None


def _may_be(value: ast.expr, text: str) -> bool:
    """Whether a value is ``text``, or may be through a conditional."""
    if isinstance(value, ast.IfExp):
        return _may_be(value.body, text) or _may_be(value.orelse, text)
    if isinstance(value, ast.BoolOp):
        return any(_may_be(v, text) for v in value.values)
    return ast.unparse(value) == text


def _default_of(arguments: ast.arguments, default: ast.AST) -> str | None:
    """The parameter whose default value is ``default``."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return next((a.arg for a, d in pairs if d is default), None)
