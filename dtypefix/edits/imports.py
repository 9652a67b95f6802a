"""Adding an import in the place where isort's order, as ruff checks it, wants it."""

from __future__ import annotations

import ast

from dtypefix.analysis.module import Module
from dtypefix.findings import Edit


def import_edit(module: Module, origin: str, name: str) -> Edit | None:
    """The edit that makes ``name`` of module ``origin`` importable at module level.

    An existing ``from origin import …`` is extended; otherwise a line is put in sorted place in the
    section of the same top-level package, or behind the last import.

    Returns:
        None when the name is imported already, or when there is no place that is surely right.
    """
    block = [s for s in module.tree.body if isinstance(s, (ast.Import, ast.ImportFrom))]
    froms = [s for s in block if isinstance(s, ast.ImportFrom) and s.level == 0]
    for statement in froms:
        if statement.module == origin:
            if any(alias.name == name and alias.asname is None for alias in statement.names):
                return None
            return _extended(module, statement, name)
    line = f"from {origin} import {name}\n"
    top = origin.partition(".")[0]
    section = [s for s in froms if (s.module or "").partition(".")[0] == top]
    later = [s for s in section if _key(s.module or "") > _key(origin)]
    if later:
        at = module.line_starts[later[0].lineno - 1]
        return Edit(at, at, line) if _alone(module, later[0]) else None
    if section:
        return _behind(module, section[-1], line)
    if block:
        return _behind(module, block[-1], "\n" + line)
    return None


def _key(dotted: str) -> tuple[str, ...]:
    return tuple(dotted.lower().split("."))


def _alone(module: Module, statement: ast.stmt) -> bool:
    return statement.col_offset == 0 and not module.lines[statement.lineno - 1][:1].isspace()


def _behind(module: Module, statement: ast.stmt, line: str) -> Edit | None:
    end = module.line_starts[statement.end_lineno or statement.lineno]
    if not module.source[:end].endswith((b"\n", b"\r")):
        line = "\n" + line
    return Edit(end, end, line)


def _order(name: str) -> tuple[int, str]:
    """The order of names in one import: constants, then classes, then the rest."""
    rank = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return rank, name


def _extended(module: Module, statement: ast.ImportFrom, name: str) -> Edit | None:
    if any(alias.name == "*" for alias in statement.names):
        return None
    following = [alias for alias in statement.names if _order(alias.name) > _order(name)]
    if statement.lineno == statement.end_lineno:
        if following:
            at = module.byte_range(following[0])[0]
            return Edit(at, at, f"{name}, ")
        at = module.byte_range(statement.names[-1])[1]
        return Edit(at, at, f", {name}")
    if following and _first_on_line(module, following[0]):
        at = module.line_starts[following[0].lineno - 1]
        indent = " " * following[0].col_offset
        return Edit(at, at, f"{indent}{name},\n")
    last = statement.names[-1]
    if not _first_on_line(module, last):
        return None
    at = module.byte_range(last)[1]
    return Edit(at, at, f",\n{' ' * last.col_offset}{name}")


def _first_on_line(module: Module, alias: ast.alias) -> bool:
    return not module.lines[alias.lineno - 1][: alias.col_offset].strip()
