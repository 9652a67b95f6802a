"""From the arguments of a command to the files it reads."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dtypefix.errors import UserError
from dtypefix.findings import Skipped
from dtypefix.sources.listing import checkout_root, python_files
from dtypefix.sources.target import Target, package_roots, printable, unique

REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*?)\s*==\s*(?P<rest>.+)", re.DOTALL)
SOURCE_FOLDERS = ("src", "python")  # where a checkout may keep its packages


def resolve(arguments: Sequence[str], *, working_directory: Path | None = None) -> Target:
    """The target that the command-line arguments name.

    No argument means the git checkout around the working directory, or the working directory itself
    outside a checkout. ``NAME==VERSION[:SUBPATH]`` means a source release, fetched if need be, and stands
    alone or beside other parts of the same release. Everything else is a file or a directory; one that
    cannot be used is listed in ``skipped`` and the others are still taken.

    Raises:
        UserError: nothing can be read at all, a release is unknown or out of reach, or arguments of
            different kinds are mixed.
    """
    here = working_directory or Path.cwd()
    releases = [argument for argument in arguments if is_release(argument)]
    if not releases:
        return _paths(arguments, here)
    if len(releases) < len(arguments):
        raise UserError("a release and paths cannot be read in one run: name either, and run twice for both")
    targets = [_release(argument) for argument in releases]
    if len({target.root for target in targets}) > 1:
        raise UserError("only one release can be read in one run: run once for each")
    files = unique(file for target in targets for file in target.files)
    return replace(targets[0], label=" ".join(releases), files=files)


def is_release(argument: str) -> bool:
    """Whether an argument names a release (``vllm==0.33.0``) and no existing file."""
    return REQUIREMENT.fullmatch(argument) is not None and not os.path.lexists(argument)


def stdin_target(filename: str, *, working_directory: Path | None = None) -> Target:
    """The target for source on standard input that is to be treated as the file ``filename``.

    The file need not exist; its place decides its module name and where its imports are looked up.
    """
    here = working_directory or Path.cwd()
    file = _absolute(here, filename)
    top = _checkout_around(file.parent)
    return Target(
        "stdin", printable(filename), here, (file,), _search_roots((file,), top, here), checkout=top
    )


def vllm_root(argument: str, *, working_directory: Path | None = None) -> Path:
    """The directory that holds the ``vllm`` package named by ``--vllm-root``: a path or ``vllm==VERSION``.

    Raises:
        UserError: there is no such directory or release, or it holds no vLLM.
    """
    if is_release(argument):
        from dtypefix.sources.releases import parse_release, release_root

        release, subpath = parse_release(argument)
        if release.name != "vllm" or subpath:
            raise UserError(f"--vllm-root {argument}: give a folder or a whole release such as vllm==0.33.0")
        return release_root(release)
    folder = _absolute(working_directory or Path.cwd(), argument)
    if not folder.exists():
        raise UserError(f"--vllm-root {printable(argument)}: no such directory")
    for candidate in (folder, folder.parent) if folder.name == "vllm" else (folder,):
        if (candidate / "vllm" / "__init__.py").is_file():
            return candidate
    raise UserError(
        f"--vllm-root {printable(argument)}: no vllm package in it; name the folder that holds vllm/"
    )


def _release(argument: str) -> Target:
    from dtypefix.sources.releases import package_folder, parse_release, release_root

    release, subpath = parse_release(argument)
    root = release_root(release)
    place = root / (subpath or package_folder(release))
    if not place.resolve().is_relative_to(root.resolve()):
        raise UserError(f"{argument}: {subpath} leads out of the release")
    if not place.exists():
        raise UserError(f"{argument}: the release has no {place.relative_to(root)}")
    files = python_files(place) if place.is_dir() else [place]
    if not files:
        raise UserError(f"{argument}: no Python files there")
    return Target("release", argument, root, tuple(files), (root,))


def _paths(arguments: Sequence[str], here: Path) -> Target:
    files: list[Path] = []
    skipped: list[Skipped] = []
    for argument in arguments:
        path = _absolute(here, argument)
        if path.is_dir():
            inside = python_files(path)
            files += inside
            if not inside:
                skipped.append(Skipped(printable(argument), "no Python files in this directory"))
        elif path.exists() and not path.is_file():
            skipped.append(
                Skipped(
                    printable(argument), "not a file or directory (use --stdin-filename F - to pipe source)"
                )
            )
        elif path.is_file() or path.is_symlink():
            files.append(path)
        else:
            skipped.append(Skipped(printable(argument), "no such file or directory"))
    top = checkout_root(here) if not arguments else None
    if not arguments:
        files = python_files(top or here)
        if not files:
            raise UserError(
                f"no Python files in {printable(str(top or here))}: name files, a directory or vllm==VERSION"
            )
    chosen = unique(files)
    top = _checkout_around(chosen[0].parent if chosen else here)
    return Target(
        "paths",
        " ".join(arguments) or ".",
        here,
        chosen,
        _search_roots(chosen, top, here),
        tuple(skipped),
        top,
    )


def _search_roots(files: Sequence[Path], top: Path | None, here: Path) -> tuple[Path, ...]:
    """Where imports are looked up: the folders of the packages at hand, then the checkout, then here."""
    around = [top, *(top / name for name in SOURCE_FOLDERS if (top / name).is_dir())] if top else []
    return tuple(dict.fromkeys((*package_roots(files), *around, here)))


def _checkout_around(start: Path) -> Path | None:
    # Asking git costs a process; its marker is enough to know where imports may live.
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)


def _absolute(here: Path, argument: str) -> Path:
    return Path(os.path.normpath(here / argument))
