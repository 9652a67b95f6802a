"""Importing a module when something of it is first used."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any


class _Unloaded(ModuleType):
    """A module whose code runs when something that it defines is asked for.

    ``importlib.util.LazyLoader`` does not serve here: in Python 3.11 a second ``import`` of the module
    reads its ``__spec__`` and thereby loads it.
    """

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        object.__setattr__(self, "__class__", ModuleType)
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(self)
        return getattr(self, name)


def import_lazily(name: str) -> None:
    """Let ``import name`` cost nothing until something that the module defines is read.

    Nothing happens when the module is loaded already or cannot be found: then a plain import says so.
    """
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    module.__class__ = _Unloaded
    sys.modules[name] = module
