"""Turns the chain of steps behind a value into the evidence of a finding."""

from __future__ import annotations

import ast
import re

from dtypefix.analysis.module import Module
from dtypefix.analysis.origins import Step, Value, Verb
from dtypefix.findings import Evidence

_SPACE = re.compile(r"\s+")
_LONGEST = 80


def code(module: Module, node: ast.AST, path: str = "") -> str:
    """The text of a node on one line, cut at 80 characters. ``path`` names its file if it is another."""
    text = ast.unparse(node) if path or not hasattr(node, "end_lineno") else module.text(node)
    text = _SPACE.sub(" ", text).strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _words(module: Module, step: Step) -> str:
    node = step.node
    if step.verb is Verb.BOUND:
        statement = module.parents.get(node) if not step.path else None
        while isinstance(statement, ast.Tuple | ast.List | ast.Starred):
            statement = module.parents.get(statement)
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            return f"`{code(module, statement)}`"
        return f"bound to `{step.name}`"
    if isinstance(node, ast.arg):
        return f"parameter `{node.arg}` comes in with its caller's dtype"
    text = f"`{code(module, node, step.path)}`"
    return {
        Verb.READ: f"{text} is read",
        Verb.CAST: f"{text} sets the dtype",
        Verb.CALL: f"{text} returns it",
        Verb.MIXED: f"operands meet in {text}",
        Verb.TESTED: f"a test settles that the dtype is {text}",
        Verb.INSIDE: f"{text} hands it on",
    }[step.verb]


# What says most about a line that several steps share.
_RANK = {
    verb: rank
    for rank, verb in enumerate((Verb.BOUND, Verb.CAST, Verb.TESTED, Verb.MIXED, Verb.INSIDE, Verb.CALL))
}


def evidence_of(value: Value, module: Module, limit: int = 6) -> tuple[Evidence, ...]:
    """The steps that decided a value's dtype, one entry a line of code.

    Args:
        value: a value from a flow of ``module``.
        module: the file that the flow is of.
        limit: how many entries to give at most; the first and the last ones are kept.

    Returns:
        The evidence: what stands in other files first, then this file from top to bottom. Empty
        where the value has no history (a constant, an attribute read in place).
    """
    places: dict[tuple[str, int], Step] = {}
    for step in value.chain(deciding=True):
        place = (step.path or module.path, getattr(step.node, "lineno", 0))
        known = places.get(place)
        if known is None or _RANK.get(step.verb, 9) <= _RANK.get(known.verb, 9):
            places[place] = step
    ordered = sorted(
        places.items(), key=lambda item: (not item[1].path, item[0][1] if not item[1].path else 0)
    )
    entries = [Evidence(path, line, _words(module, step)) for (path, line), step in ordered]
    if len(entries) > limit:
        entries = [*entries[:1], *entries[1 - limit :]]
    return tuple(entries)


def evidence_at(node: ast.AST, module: Module, text: str) -> Evidence:
    """Evidence for a place of a rule's own choosing."""
    return Evidence(module.path, getattr(node, "lineno", 1), text)
