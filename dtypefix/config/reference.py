"""The settings as text: in effect, and as the reference page.

``python -m dtypefix.config.reference`` prints the page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any

from dtypefix.config.resolve import Effective
from dtypefix.config.settings import declared

INTRODUCTION = """\
# Configuration

dtypefix reads `dtypefix.toml`, or the table `[tool.dtypefix]` of `pyproject.toml`. For each file the nearest
one above it counts, alone: settings of another file come in only by `extend`. Where no folder above has one,
the `dtypefix.toml` of your own configuration folder does (`~/.config/dtypefix` on Linux).

```toml
# dtypefix.toml; in pyproject.toml the same below [tool.dtypefix]
extend = "../shared/dtypefix.toml"
extend-select = ["rocm"]
per-file-ignores = { "tests/" = ["ALL"] }
baseline = "dtypefix-baseline.json"
```

`extend` names a configuration file whose settings lie below those of this one: a key replaces, an `extend-…`
key adds. Paths are relative to the file that names them, patterns to the folder of the file that governs.

The command line wins: `--select` and the like, then `--config 'key = value'` (TOML, several times), then
`--config FILE`, which stands in for every file that would be found. `--isolated` reads no file at all. A
release and an installed package are not governed by the project you stand in, only by your own configuration
and `--config`.

`--show-settings` prints what holds and where it was set, `--show-files` what would be read. An unknown
setting or rule is an error. Settings marked *of the run* come from the configuration around the working
directory.
"""


def page() -> str:
    """The reference page in Markdown."""
    parts = [INTRODUCTION]
    for name, item, about in declared():
        notes = [about.kind.value, f"default `{_toml(_default(item))}`"]
        if about.run_wide:
            notes.append("of the run")
        if about.trusted_only:
            notes.append("not honoured in a scanned tree")
        parts.append(f"## {name}\n\n{about.help}\n\n*{'; '.join(notes)}*\n\n```toml\n{about.example}\n```\n")
    return "\n".join(parts)


def as_toml(effective: Effective) -> str:
    """Settings in effect as TOML, each with the place that set it; what is unset is a comment."""
    lines = [f"# patterns are relative to {effective.settings.base}"]
    for name, item, _ in declared():
        value = getattr(effective.settings, item.name)
        origin = effective.origins.get(name, "default")
        lines.append(f"# {name} is not set" if value is None else f"{name} = {_toml(value)}  # {origin}")
    return "\n".join(lines) + "\n"


def _default(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _toml(value: Any) -> str:
    # A TOML basic string is written like a JSON one; the few other forms that settings have are these.
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case Path() | str():
            return json.dumps(str(value), ensure_ascii=False)
        case Mapping():
            inside = ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items())
            return f"{{ {inside} }}" if inside else "{}"
        case _:
            return f"[{', '.join(map(_toml, value))}]"


if __name__ == "__main__":
    print(page(), end="")
