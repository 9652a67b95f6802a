"""Writing new code the way the surrounding file is formatted."""

from __future__ import annotations


def fit(line: str, indent: str, width: int) -> str:
    """A one-line statement, broken inside its last call's parentheses when it is too long.

    Args:
        line: the statement without indentation.
        indent: the indentation it stands at.
        width: the longest line allowed, in columns.

    Returns:
        The statement with indentation, in the layout of ``ruff format``: one argument list on a
        line of its own. A statement that cannot be broken is returned on one line.
    """
    if len(indent) + len(line) <= width or not line.endswith(")"):
        return indent + line
    depth = 0
    for at in range(len(line) - 1, -1, -1):
        depth += {")": 1, "]": 1, "}": 1, "(": -1, "[": -1, "{": -1}.get(line[at], 0)
        if depth == 0:
            break
    head, inside = line[: at + 1], line[at + 1 : -1]
    if not inside:
        return indent + line
    return f"{indent}{head}\n{indent}    {inside}\n{indent})"
