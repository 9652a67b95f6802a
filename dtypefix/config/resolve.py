"""Which settings are in effect: for a run, and for each of its files."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from dtypefix.config.read import NOTHING, OWN_FILE, Layer, file_in, read_file, read_inline
from dtypefix.config.settings import Settings, declared
from dtypefix.errors import UserError

TRUSTED_ONLY = frozenset(name for name, _, about in declared() if about.trusted_only)


@dataclass(frozen=True)
class Effective:
    """Settings in effect and, for each that is not a default, the place that set it.

    ``untrusted`` names the settings that were set where they are not honoured, with the file.
    """

    settings: Settings
    origins: dict[str, str]
    untrusted: tuple[tuple[str, str], ...] = ()


class Configuration:
    """The settings of one run.

    Settings come, strongest first, from ``--config key=value``; then from ``--config FILE``, or else from the
    nearest ``dtypefix.toml`` or ``pyproject.toml`` above a file, or else from the person's own
    ``dtypefix.toml``. ``rules`` are always taken from the person's own file too.
    """

    def __init__(self, here: Path, given: Sequence[str] = (), *, isolated: bool = False) -> None:
        """``given`` are the values of ``--config``, ``here`` is the working directory.

        Raises:
            UserError: a value cannot be used, or a file is given although ``isolated``.
        """
        self._here = here
        self._isolated = isolated
        self._inline = NOTHING
        self._file: Path | None = None
        for value in given:
            path = Path(os.path.normpath(here / Path(value).expanduser()))
            if os.path.isfile(path):
                if isolated:
                    raise UserError(f"--config {value} names a file, which --isolated rules out")
                if self._file is not None:
                    raise UserError("--config takes one file; let it extend the other")
                self._file = path
            elif "=" in value:
                self._inline = read_inline(value, here).over(self._inline)
            else:
                raise UserError(f"--config {value}: no such file, and no 'key = value'")
        self._read = cache(read_file)
        self._nearest = cache(self._find_nearest)
        self._of_source = cache(self._effective)

    def for_run(self, *, project: bool = True) -> Effective:
        """The settings that hold for the run; without ``project`` those of the person alone."""
        return self._of_source(self._source(self._here if project else None))

    def for_file(self, file: Path, *, project: bool = True) -> Effective:
        """The settings that hold for a file."""
        return self._of_source(self._source(file.parent if project else None))

    def _source(self, folder: Path | None) -> Path | None:
        return self._file or (None if folder is None else self._nearest(folder))

    def _effective(self, source: Path | None) -> Effective:
        own = self._own
        layer, untrusted = own, []
        if source is not None:
            layer = self._read(source)
            if self._file is None:
                untrusted = [
                    (name, layer.origins[name]) for name in sorted(TRUSTED_ONLY & layer.values.keys())
                ]
                layer = layer.without(TRUSTED_ONLY)
            packs = {name: own.values[name] for name in TRUSTED_ONLY & own.values.keys()}
            layer = layer.over(Layer(packs, {name: own.origins[name] for name in packs}))
        layer = self._inline.over(layer)
        base = self._here if source is None or source == self._file else source.parent
        values = {name.replace("-", "_"): value for name, value in layer.values.items()}
        origins = {name: layer.origins[name] for name in layer.values}
        return Effective(replace(Settings(base=base), **values), origins, tuple(untrusted))

    def _find_nearest(self, folder: Path) -> Path | None:
        if self._isolated:
            return None
        found = file_in(folder)
        if found is not None or folder.parent == folder:
            return found
        return self._nearest(folder.parent)

    @cached_property
    def _own(self) -> Layer:
        if self._isolated:
            return NOTHING
        path = user_folder() / OWN_FILE
        return self._read(path) if os.path.isfile(path) else NOTHING


def user_folder() -> Path:
    """The person's own configuration folder."""
    if sys.platform == "linux":
        # platformdirs gives the same here and takes a tenth of a hook's time to import.
        return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "dtypefix"
    import platformdirs

    return Path(platformdirs.user_config_dir("dtypefix", appauthor=False))
