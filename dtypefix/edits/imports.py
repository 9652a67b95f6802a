"""Adding an import in the place where isort's order, as ruff checks it, wants it."""

from __future__ import annotations

import ast
import re

from dtypefix.analysis.module import Module
from dtypefix.analysis.walking import walk
from dtypefix.findings import Edit

_WORD = re.compile(r"\w+")


def import_edit(module: Module, origin: str, name: str, width: int) -> Edit | None:
    """The edit that makes ``name`` of module ``origin`` importable at module level.

    An existing ``from origin import …`` is extended; otherwise a line is put in sorted place in the
    section of the same top-level package, or behind the last import.

    Args:
        module: the file.
        origin: the dotted name of the module to import from.
        name: the name to import.
        width: the line length that the file's formatter uses, in columns.

    Returns:
        None when the name is imported already, or when there is no place that is surely right.
    """
    block = [s for s in module.tree.body if isinstance(s, (ast.Import, ast.ImportFrom))]
    froms = [s for s in block if isinstance(s, ast.ImportFrom) and s.level == 0]
    for statement in froms:
        if statement.module == origin:
            if any(alias.name == name and alias.asname is None for alias in statement.names):
                return None
            return _extended(module, statement, name, width)
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


def is_imported(module: Module, name: str) -> bool:
    """Whether an import binds ``name`` when the code runs, not only for a type checker."""
    return any(
        (alias.asname or alias.name) == name
        and not any(
            isinstance(parent, ast.If) and "TYPE_CHECKING" in ast.unparse(parent.test)
            for parent in module.ancestors(alias)
        )
        for alias in module.nodes(ast.alias)
    )


def _key(dotted: str) -> tuple[str, ...]:
    return tuple(dotted.lower().split("."))


def _alone(module: Module, statement: ast.stmt) -> bool:
    """Whether a statement at module level shares its lines with no other; comments may stand behind it."""
    behind = module.lines[(statement.end_lineno or statement.lineno) - 1][statement.end_col_offset or 0 :]
    before = module.lines[statement.lineno - 1][: statement.col_offset]
    above = module.lines[statement.lineno - 2] if statement.lineno > 1 else b""
    if before.strip(b"\f") or above.rstrip(b"\r\n").endswith(b"\\"):
        return False
    return behind.strip()[:1] in (b"", b"#")


def _behind(module: Module, statement: ast.stmt, line: str) -> Edit | None:
    if not _alone(module, statement):
        return None
    end = module.line_starts[statement.end_lineno or statement.lineno]
    if not module.source[:end].endswith((b"\n", b"\r")):
        line = "\n" + line
    return Edit(end, end, line)


def _order(name: str) -> tuple[int, str]:
    """The order of names in one import: constants, then classes, then the rest."""
    rank = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return rank, name


def _extended(module: Module, statement: ast.ImportFrom, name: str, width: int) -> Edit | None:
    if any(alias.name == "*" for alias in statement.names):
        return None
    following = [alias for alias in statement.names if _order(alias.name) > _order(name)]
    if statement.lineno == statement.end_lineno:
        line = module.lines[statement.lineno - 1].decode(module.encoding).rstrip()
        if len(line) + len(name) + 2 > width and line.count("(") == 0 and "#" not in line:
            return _on_lines(module, statement, name, following)
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


def _on_lines(module: Module, statement: ast.ImportFrom, name: str, following: list[ast.alias]) -> Edit:
    """The import with one name a line, in parentheses."""
    texts = [module.text(alias) for alias in statement.names]
    texts.insert(len(texts) - len(following), name)
    start, end = module.byte_range(statement)
    body = "".join(f"    {text},\n" for text in texts)
    return Edit(start, end, f"from {statement.module} import (\n{body})")


def _first_on_line(module: Module, alias: ast.alias) -> bool:
    return not module.lines[alias.lineno - 1][: alias.col_offset].strip()


def orphaned_import_edits(before: Module, after: Module) -> list[Edit]:
    """Edits on ``after`` that remove the module-level imports whose last use an edit took away.

    An import that was unused before, is named in ``__all__`` or in any string, or shares its line
    with a comment or another statement stays.
    """
    used_before, used_after = _names_used(before.tree), _names_used(after.tree)
    edits = []
    for statement in after.tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom) or not _alone(after, statement):
            continue
        orphans = [
            alias
            for alias in statement.names
            if (name := alias.asname or alias.name.partition(".")[0]) in used_before
            and name not in used_after
        ]
        start = after.byte_range(statement)[0]
        if orphans and b"#" not in after.source[start : after.line_starts[statement.end_lineno or 0]]:
            edits.append(_without(after, statement, orphans))
    return edits


def _names_used(tree: ast.Module) -> set[str]:
    """The names that code reads, and the words of its strings, which may be annotations or exports."""
    words: set[str] = set()
    for node in walk(tree):
        if isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            words.update(_WORD.findall(node.value))
    return words


def _without(module: Module, statement: ast.Import | ast.ImportFrom, orphans: list[ast.alias]) -> Edit:
    kept = [alias for alias in statement.names if alias not in orphans]
    if not kept:
        return _whole_lines(module, statement)
    first, last = module.byte_range(statement.names[0])[0], module.byte_range(statement.names[-1])[1]
    separator = ", "
    if statement.lineno != statement.end_lineno:
        separator = ",\n" + " " * statement.names[0].col_offset
    return Edit(first, last, separator.join(module.text(alias) for alias in kept))


def _whole_lines(module: Module, statement: ast.stmt) -> Edit:
    """Remove a statement with its lines, and one of the two runs of blank lines around it."""
    first, last = statement.lineno, statement.end_lineno or statement.lineno

    def blank(number: int) -> bool:
        return 1 <= number <= len(module.lines) and not module.lines[number - 1].strip()

    if blank(last + 1):
        if first == 1:
            while blank(last + 1):
                last += 1
        else:
            while blank(first - 1):
                first -= 1
    return Edit(module.line_starts[first - 1], module.line_starts[last], "")
