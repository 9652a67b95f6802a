"""Importing a module when something of it is first used."""

from __future__ import annotations

import importlib.util
import sys


def import_lazily(name: str) -> None:
    """Let ``import name`` cost nothing until an attribute of the module is read.

    Nothing happens when the module is loaded already or cannot be found: then a plain import says so.
    """
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
