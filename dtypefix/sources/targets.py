"""From the arguments of a command to the files it reads."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dtypefix.errors import UserError
from dtypefix.findings import Skipped
from dtypefix.sources.listing import checkout_root, python_files
from dtypefix.sources.read import Unreadable
from dtypefix.sources.target import Target, display_path, package_roots, printable, unique

REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*?)\s*==\s*(?P<rest>.+)", re.DOTALL)
SOURCE_FOLDERS = ("src", "python")  # where a checkout may keep its packages


Keep = Callable[[Path, Path | None], bool]
"""Whether a file is to be read that lies in the folder asked for; None: that was itself asked for."""


def keep_all(file: Path, folder: Path | None) -> bool:
    """Leave nothing out."""
    return True


def resolve(
    arguments: Sequence[str],
    *,
    working_directory: Path | None = None,
    keep: Keep = keep_all,
    respect_gitignore: bool = True,
) -> Target:
    """The target that the command-line arguments name, of its files those that ``keep`` lets pass.

    No argument means the git checkout around the working directory, or the working directory itself
    outside a checkout. ``NAME==VERSION[:SUBPATH]`` means a source release, fetched if need be, and stands
    alone or beside other parts of the same release. Everything else is a file or a directory; one that
    cannot be used is listed in ``skipped`` and the others are still taken.

    Raises:
        UserError: nothing can be read at all, a release is unknown or out of reach, or arguments of
            different kinds are mixed.
    """
    here = working_directory or _here()
    releases = [argument for argument in arguments if is_release(argument)]
    if not releases:
        return _paths(arguments, here, keep, respect_gitignore)
    if len(releases) < len(arguments):
        raise UserError("a release and paths cannot be read in one run: name either, and run twice for both")
    targets = [_release(argument, keep) for argument in releases]
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
    here = working_directory or _here()
    file = _absolute(here, filename)
    top = _checkout_around(file.parent)
    return Target(
        "stdin",
        printable(filename),
        here,
        (file,),
        _search_roots((file,), top, here),
        checkout=top,
        named=frozenset({file}),
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
    folder = _absolute(working_directory or _here(), argument)
    if not os.path.isdir(folder):
        raise UserError(f"--vllm-root {printable(argument)}: no such directory")
    for candidate in (folder, folder.parent) if folder.name == "vllm" else (folder,):
        if os.path.isfile(candidate / "vllm" / "__init__.py"):
            return candidate
    raise UserError(
        f"--vllm-root {printable(argument)}: no vllm package in it; name the folder that holds vllm/"
    )


def _release(argument: str, keep: Keep) -> Target:
    from dtypefix.sources.releases import package_folder, parse_release, release_root

    release, subpath = parse_release(argument)
    root = release_root(release)
    place = root / (subpath or package_folder(release))
    if not place.resolve().is_relative_to(root.resolve()):
        raise UserError(f"{argument}: {subpath} leads out of the release")
    if not os.path.exists(place):
        raise UserError(f"{argument}: the release has no {place.relative_to(root)}")
    files = python_files(place) if place.is_dir() else [place]
    if not files:
        raise UserError(f"{argument}: no Python files there")
    folder = place if place.is_dir() else None
    named = frozenset(files) if folder is None else frozenset[Path]()
    kept = tuple(file for file in files if keep(file, folder))
    return Target("release", argument, root, kept, (root,), named=named)


def _paths(arguments: Sequence[str], here: Path, keep: Keep, respect_gitignore: bool) -> Target:
    files: list[Path] = []
    named: set[Path] = set()
    skipped: list[Skipped] = []

    def unreadable(error: OSError) -> None:
        skipped.append(Skipped(display_path(error.filename, here), f"cannot be read: {error.strerror}"))

    for argument in arguments:
        path = _absolute(here, argument)
        try:
            found = _files_at(path, unreadable, respect_gitignore)
        except Unreadable as error:
            skipped.append(Skipped(printable(argument), str(error)))
            continue
        if found == [path]:
            named.add(path)
        files += [file for file in found if keep(file, None if file == path else path)]
    if not arguments:
        place = checkout_root(here) or here
        found = python_files(place, unreadable, respect_gitignore=respect_gitignore)
        if not found:
            raise UserError(
                f"no Python files in {printable(str(place))}: name files, a directory or vllm==VERSION"
            )
        files = [file for file in found if keep(file, place)]
    chosen = unique(files)
    top = _checkout_around(chosen[0].parent if chosen else here)
    return Target(
        kind="paths",
        label=" ".join(arguments) or ".",
        root=here,
        files=chosen,
        search_roots=_search_roots(chosen, top, here),
        skipped=tuple(skipped),
        checkout=top,
        named=frozenset(named),
    )


def _files_at(path: Path, on_error: Callable[[OSError], None], respect_gitignore: bool) -> list[Path]:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            os.scandir(path).close()
    except FileNotFoundError:
        if path.is_symlink():  # reading it will say that it leads nowhere
            return [path]
        raise Unreadable("no such file or directory") from None
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None
    if stat.S_ISREG(mode):
        return [path]
    if not stat.S_ISDIR(mode):
        raise Unreadable("not a file or directory (use --stdin-filename F - to pipe source)")
    inside = python_files(path, on_error, respect_gitignore=respect_gitignore)
    if not inside:
        raise Unreadable("no Python files in this directory")
    return inside


def _search_roots(files: Sequence[Path], top: Path | None, here: Path) -> tuple[Path, ...]:
    """Where imports are looked up: the folders of the packages at hand, then the checkout, then here."""
    around = [top, *(top / name for name in SOURCE_FOLDERS if os.path.isdir(top / name))] if top else []
    return tuple(dict.fromkeys((*package_roots(files), *around, here)))


def _checkout_around(start: Path) -> Path | None:
    # Asking git costs a process; its marker is enough to know where imports may live.
    return next((folder for folder in (start, *start.parents) if os.path.exists(folder / ".git")), None)


def _absolute(here: Path, argument: str) -> Path:
    return Path(os.path.normpath(here / argument))


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise UserError("the working directory is gone: change to one that exists") from None
