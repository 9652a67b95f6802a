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
        Verb.INSIDE: f"{text} returns that",
    }[step.verb]


def evidence_of(value: Value, module: Module, limit: int = 6) -> tuple[Evidence, ...]:
    """The steps that led to a value, sources first, one entry a line of code.

    Args:
        value: a value from a flow of ``module``.
        module: the file that the flow is of.
        limit: how many entries to give at most; the first and the last ones are kept.

    Returns:
        The evidence; empty where the value has no history (a constant, an attribute read in place).
    """
    places: dict[tuple[str, int], list[str]] = {}
    for step in value.chain():
        line = getattr(step.node, "lineno", 0)
        words = _words(module, step)
        said = places.setdefault((step.path or module.path, line), [])
        if words not in said:
            said.append(words)
    entries = [Evidence(path, line, _sentence(said)) for (path, line), said in places.items()]
    if len(entries) > limit:
        entries = [*entries[:1], *entries[1 - limit :]]
    return tuple(entries)


def _sentence(said: list[str]) -> str:
    """What one line shows: a read that a cast on the same line contains says nothing more."""
    if len(said) > 1:
        said = [s for s in said if not s.endswith(" is read")] or said
    return ", ".join(said[-2:])


def evidence_at(node: ast.AST, module: Module, text: str) -> Evidence:
    """Evidence for a place of a rule's own choosing."""
    return Evidence(module.path, getattr(node, "lineno", 1), text)
