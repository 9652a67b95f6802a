"""What a run's results depend on besides the files that it reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import dtypefix
from dtypefix.cache.digests import digest_of, signature
from dtypefix.engine.catalog import RuleInfo


def default_folder() -> Path:
    """Where results are kept: ``$DTYPEFIX_CACHE``, else the user's cache folder."""
    chosen = os.environ.get("DTYPEFIX_CACHE")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("dtypefix")) / "results"


def key_of(rules: Iterable[RuleInfo], knowledge: Iterable[Path], places: Iterable[Path]) -> str:
    """The name of the index for a run.

    Args:
        rules: every rule that is installed, so that a changed one, or one more, starts afresh.
        knowledge: further tables of facts.
        places: the folders that imports are looked up in and that reported paths are relative to.
    """
    engine = Path(dtypefix.__file__).parent
    packs = {rule.path.parent for rule in rules}
    folders = [
        folder for folder in sorted({engine, *packs}) if folder == engine or engine not in folder.parents
    ]
    tables = [f"{path} {digest_of(path.read_bytes())}" for path in knowledge if path.is_file()]
    parts = (
        *(dtypefix.__version__, sys.version, _libcst_version()),
        signature((*folders, *(path for path in knowledge if path.is_dir()))),
        *tables,
        *map(str, places),
    )
    return digest_of("\0".join(parts).encode())


def _libcst_version() -> str:
    from importlib.metadata import version

    return version("libcst")
