"""Opens pages in a headless Chromium, for tests of what a person would see."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def chromium() -> str:
    """The path of an installed Chromium; the test that asks is skipped where there is none."""
    named = os.environ.get("CHROMIUM")
    for name in (named,) if named else NAMES:
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium is installed (looked for $CHROMIUM, " + ", ".join(NAMES) + ")")


def _open(address: str, profile: Path, *options: str) -> str:
    command = [
        chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--user-data-dir={profile}", *options, address,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def page_after_scripts(page: Path, fragment: str, profile: Path) -> str:
    """The document as it is once its scripts have run."""
    return _open(f"{page.as_uri()}#{fragment}", profile, "--dump-dom")


def screenshot(page: Path, fragment: str, profile: Path, picture: Path, *, dark: bool) -> None:
    """Takes a picture of the page, in light or dark."""
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    _open(f"{page.as_uri()}#{fragment}", profile, scheme, f"--screenshot={picture}", "--window-size=1200,900")
