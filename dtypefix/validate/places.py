"""Which places a run is about: named by hand, or the findings that are gone from the patched tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from dtypefix.errors import UserError
from dtypefix.findings import Finding
from dtypefix.validate.verdict import Place


def parse_place(text: str, base: Path) -> Place:
    """A place given as ``path:line:rule``, its symbol read from the base tree.

    Raises:
        UserError: the text has another shape, or the line does not exist in the base tree.
    """
    path, _, rest = text.partition(":")
    line_text, _, rule = rest.partition(":")
    if not (path and rule and line_text.isdecimal()):
        raise UserError(f"--place {text}: write it as PATH:LINE:RULE, the path relative to the checkout")
    source = base / path
    if not source.is_file():
        raise UserError(f"--place {text}: {path} is not a file of the base tree {base}")
    line = int(line_text)
    data = source.read_bytes()
    if not 1 <= line <= data.count(b"\n") + 1:
        raise UserError(f"--place {text}: {path} has no line {line}")
    return Place(path, line, rule, symbol_at(data, line))


def symbol_at(source: bytes, line: int) -> str:
    """The dotted name of the innermost class or function around a line, ``""`` at module level."""
    scopes = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return ".".join(node.name for node in sorted(scopes, key=lambda node: node.lineno))


def gone(base: Iterable[Finding], patched: Iterable[Finding], *, remaining: bool = False) -> list[Place]:
    """The findings of the base tree that the patched tree no longer has, as places.

    With ``remaining`` those that are still there are places too: a fix that was claimed but not made
    then shows up as not fixed. Notes are never places.
    """
    left = {finding.fingerprint for finding in patched}
    return sorted(
        Place(finding.path, finding.span.line, finding.rule, finding.symbol)
        for finding in base
        if finding.counts and (remaining or finding.fingerprint not in left)
    )
