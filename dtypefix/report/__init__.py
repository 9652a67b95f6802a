"""How results are shown.

A format is one module in ``dtypefix.report.formats``: the module's name, dashes for underscores, is the
format's name, and its ``render(report, view, out)`` writes the report to a text stream.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TextIO

from dtypefix.report.model import Report, RuleDoc, View

__all__ = ["Report", "RuleDoc", "View", "format_names", "render"]


def format_names() -> list[str]:
    """The names of the report formats, ``text`` first."""
    from dtypefix.report import formats

    names = [module.name.replace("_", "-") for module in pkgutil.iter_modules(formats.__path__)]
    return sorted(names, key=lambda name: (name != "text", name))


def render(name: str, report: Report, view: View, out: TextIO) -> None:
    """Write ``report`` to ``out`` in the format called ``name``, one of :func:`format_names`."""
    import_module(f"dtypefix.report.formats.{name.replace('-', '_')}").render(report, view, out)
