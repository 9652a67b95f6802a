"""Where pip would look for a package: its configuration files and environment, read through pip itself."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PYPI = "https://pypi.org/simple/"
SETTING = re.compile(r"(?P<section>:env:|global|download|install)\.(?P<key>[a-z-]+)=(?P<value>.+)")
PRECEDENCE = ("global", "install", "download", ":env:")


@dataclass(frozen=True)
class PipSettings:
    """What pip's configuration says of package sources; ``index_urls`` empty means no index at all."""

    index_urls: tuple[str, ...]
    find_links: tuple[str, ...]
    trusted_hosts: tuple[str, ...]
    certificates: str | None


def read_settings() -> PipSettings:
    """Pip's settings, environment variables over files; of the environment alone without pip."""
    values = _from_pip() or _from_environment(os.environ.items())
    index_urls = (values.get("index-url") or PYPI, *values.get("extra-index-url", "").split())
    links = values.get("find-links", "").split()
    certificates = os.path.expanduser(values.get("cert", ""))
    return PipSettings(
        index_urls=() if _is_true(values.get("no-index", "")) else index_urls,
        find_links=tuple(link for link in links if "://" in link or Path(link).exists()),
        trusted_hosts=tuple(values.get("trusted-host", "").split()),
        certificates=certificates if certificates and Path(certificates).exists() else None,
    )


def _from_pip() -> dict[str, str]:
    command = [sys.executable, "-m", "pip", "config", "list", "--disable-pip-version-check"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found = [match for line in done.stdout.splitlines() if (match := SETTING.fullmatch(line.strip()))]
    found.sort(key=lambda match: PRECEDENCE.index(match["section"]))
    return {match["key"]: str(ast.literal_eval(match["value"])) for match in found}


def _from_environment(variables: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in variables
        if name.startswith("PIP_") and value
    }


def _is_true(value: str) -> bool:
    return value.lower() in ("1", "true", "yes", "on", "y", "t")
