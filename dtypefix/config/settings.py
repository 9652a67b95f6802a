"""Every setting there is: its type, its default, what it means and an example.

The fields of :class:`Settings` are the only declaration. Reading, checking, ``--show-settings`` and the
reference page all follow from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any

DEFAULT_EXCLUDE = ("third_party",)  # what vLLM's own hooks leave out: code that is kept elsewhere


class Kind(Enum):
    """The type of a setting, as its TOML form and as people read it."""

    NAMES = "list of rules and groups"
    PATTERNS = "list of patterns"
    NAMES_BY_PATTERN = "table of patterns to lists of rules and groups"
    FLAG = "true or false"
    PATH = "path"
    PATHS = "list of paths"
    ROOT = "path or vllm==VERSION"
    PACKS = "list of packages and folders"


@dataclass(frozen=True, slots=True)
class About:
    """What is declared of one setting besides its name and default.

    ``run_wide`` settings hold for a whole run and come from the configuration around the working directory;
    the others hold for each file. ``trusted_only`` ones name code to run, so a scanned tree may not set them.
    """

    kind: Kind
    help: str
    example: str
    run_wide: bool = False
    trusted_only: bool = False


def _setting(
    default: Any, kind: Kind, help: str, example: str, *, run_wide: bool = False, trusted_only: bool = False
) -> Any:
    about = About(kind, help, example, run_wide, trusted_only)
    if isinstance(default, dict):
        return field(default_factory=lambda: default, metadata={"about": about})
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True)
class Settings:
    """Settings in effect, paths absolute. ``base`` is the folder that patterns are relative to."""

    select: tuple[str, ...] = _setting(
        ("core",),
        Kind.NAMES,
        "The rules to run: rule names, group names or `ALL`. `--select` replaces it, `ignore` and "
        "`extend-select` included.",
        'select = ["core", "rocm"]',
    )
    extend_select: tuple[str, ...] = _setting(
        (), Kind.NAMES, "Rules to run besides those of `select`.", 'extend-select = ["index-width"]'
    )
    ignore: tuple[str, ...] = _setting(
        (),
        Kind.NAMES,
        "Rules not to run. It wins over `select` and `extend-select`.",
        'ignore = ["bf16-to-numpy"]',
    )
    per_file_ignores: Mapping[str, tuple[str, ...]] = _setting(
        {},
        Kind.NAMES_BY_PATTERN,
        "Rules not to run in the files that a pattern matches. A pattern is one of `.gitignore`, relative to "
        "the folder of this file; one that starts with `!` stands for all files it does not match.",
        'per-file-ignores = { "tests/" = ["ALL"], "benchmarks/*.py" = ["ambient-out-dtype"] }',
    )
    exclude: tuple[str, ...] = _setting(
        DEFAULT_EXCLUDE,
        Kind.PATTERNS,
        "Files and folders not to read, as `.gitignore` patterns relative to the folder of this file. The "
        "default is what vLLM's own hooks leave out. A file or folder named on the command line is read all "
        "the same, unless `force-exclude` is set.",
        'exclude = ["third_party", "vllm/vllm_flash_attn/"]',
    )
    extend_exclude: tuple[str, ...] = _setting(
        (), Kind.PATTERNS, "Patterns besides those of `exclude`.", 'extend-exclude = ["tests/"]'
    )
    force_exclude: bool = _setting(
        False,
        Kind.FLAG,
        "Leave excluded files out even where the command line names them, as a hook does.",
        "force-exclude = true",
        run_wide=True,
    )
    respect_gitignore: bool = _setting(
        True,
        Kind.FLAG,
        "Leave out of folders what git ignores.",
        "respect-gitignore = false",
        run_wide=True,
    )
    unsafe_fixes: bool = _setting(
        False,
        Kind.FLAG,
        "Let `rewrite` apply the fixes that need a reader too.",
        "unsafe-fixes = true",
        run_wide=True,
    )
    baseline: Path | None = _setting(  # noqa: RUF009 - it gives a field
        None,
        Kind.PATH,
        "A file of known findings, made by `dtypefix baseline create`: they are counted, not reported.",
        'baseline = "dtypefix-baseline.json"',
        run_wide=True,
    )
    vllm_root: str | None = _setting(
        None,
        Kind.ROOT,
        "Where a plug-in's vLLM base classes come from: a folder that holds `vllm/`, or a release.",
        'vllm-root = "vllm==0.33.0"',
        run_wide=True,
    )
    knowledge: tuple[Path, ...] = _setting(
        (),
        Kind.PATHS,
        "Further tables of facts for the rules (`*.toml` files or folders of them), laid over those of the "
        "rule packs. They are data: nothing in them is run.",
        'knowledge = ["lint/our_layers.toml"]',
        run_wide=True,
    )
    rules: tuple[str, ...] = _setting(
        (),
        Kind.PACKS,
        "Rule packs besides the installed ones: importable packages, or folders written with a `/`. A pack "
        "is code that runs, so this is honoured only in a file given with `--config` and in your own "
        "configuration folder, never in a tree that is scanned.",
        'rules = ["our_rules", "./lint/rules"]',
        run_wide=True,
        trusted_only=True,
    )
    base: Path = field(default=Path(), compare=True)

    @property
    def excluded(self) -> tuple[str, ...]:
        """The patterns of what is not read."""
        return (*self.exclude, *self.extend_exclude)


def declared() -> list[tuple[str, Field[Any], About]]:
    """Name as written in TOML, field and declaration of every setting, in order."""
    return [
        (item.name.replace("_", "-"), item, item.metadata["about"])
        for item in fields(Settings)
        if "about" in item.metadata
    ]
