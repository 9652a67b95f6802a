"""Source releases on a package index: finding one, fetching it once and keeping it in the user's cache."""

from __future__ import annotations

import logging
import os
import ssl
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from packaging.version import InvalidVersion, Version

from dtypefix.errors import UserError
from dtypefix.sources.progress import DownloadProgress

if TYPE_CHECKING:
    from unearth import Package, PackageFinder
    from unearth.fetchers import Fetcher

# The import package of each project, and the folder of its source archive that holds it.
PACKAGES = {"vllm": "vllm", "sglang": "sglang", "vllm-ascend": "vllm_ascend"}
ARCHIVE_PREFIX = {"sglang": "python/"}
NEAREST = 2  # how many versions on either side of an unknown one are named


@dataclass(frozen=True)
class Release:
    """One version of one project, both in normal form."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def parse_release(argument: str) -> tuple[Release, str]:
    """``NAME==VERSION[:SUBPATH]`` as a release and the path inside it (``""`` for none).

    Raises:
        UserError: the project is not one whose layout is known, or the version is none.
    """
    name, _, rest = argument.partition("==")
    text, _, subpath = rest.partition(":")
    project = name.strip().lower().replace("_", "-")
    if project not in PACKAGES:
        raise UserError(f"{argument}: unknown project {name.strip()}; known are {', '.join(PACKAGES)}")
    try:
        version = Version(text.strip())
    except InvalidVersion:
        raise UserError(
            f"{argument}: {text.strip()!r} is no version; write for example {project}==0.33.0"
        ) from None
    return Release(project, str(version)), subpath.strip().strip("/")


def package_folder(release: Release) -> str:
    """The folder of an unpacked release that holds its import package."""
    return PACKAGES[release.name]


def sources_folder() -> Path:
    """Where unpacked releases are kept: ``$DTYPEFIX_SOURCES``, else the user's cache folder."""
    override = os.environ.get("DTYPEFIX_SOURCES")
    if override:
        return Path(override).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("dtypefix")) / "sources"


def release_root(release: Release) -> Path:
    """The folder of an unpacked release, fetched from the package index if it is not in the cache.

    It holds the archive's Python files, its ``.toml`` files and the C++ sources under ``csrc`` that bind
    operators; sglang's lie without their ``python/`` prefix.

    Raises:
        UserError: the release is unknown, the index is out of reach, or the archive is damaged.
    """
    kept = _kept(release)
    if kept is not None:
        return kept
    sources = sources_folder()
    try:
        return _fetch(release, sources)
    except OSError as error:
        raise UserError(f"{release}: cannot be kept in {sources}: {error.strerror or error}") from None


def _kept(release: Release) -> Path | None:
    """The folder in the cache of this version, however it is spelled."""
    sources = sources_folder()
    exact = sources / f"{release.name}-{release.version}"
    if exact.is_dir():
        return exact
    for folder in sorted(sources.glob(f"{release.name}-[0-9]*")):
        try:
            version = Version(folder.name.removeprefix(f"{release.name}-"))
        except InvalidVersion:
            continue
        if version == Version(release.version) and folder.is_dir():
            return folder
    return None


def _fetch(release: Release, sources: Path) -> Path:
    from unearth.errors import UnpackError
    from unearth.preparer import HTTPErrors

    sources.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{release.name}-{release.version}.", dir=sources) as scratch:
        try:
            archive, version = _download(release, Path(scratch))
        except HTTPErrors as error:
            raise UserError(
                _out_of_reach(str(release), release.name, str(error) or type(error).__name__)
            ) from None
        except UnpackError as error:
            raise UserError(
                f"{release}: the download is damaged, try again: {' '.join(str(error).split())}"
            ) from None
        unpacked = Path(scratch, "unpacked")
        try:
            unpack(archive, unpacked, strip=ARCHIVE_PREFIX.get(release.name, ""))
        except (tarfile.TarError, EOFError, UnicodeError) as error:
            raise UserError(f"{release}: {archive.name} cannot be unpacked: {error}") from None
        folder = sources / f"{release.name}-{version}"
        try:
            unpacked.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another run has put the same release there meanwhile
                raise
    return folder


def unpack(archive: Path, folder: Path, *, strip: str = "") -> None:
    """Unpack what dtypefix reads of a source archive into ``folder``, ``strip`` removed from the paths.

    Raises:
        tarfile.TarError: the archive is damaged, or a member would land outside ``folder``.
    """
    folder.mkdir()
    with tarfile.open(archive) as tar:
        for member in tar:
            inner = member.name.partition("/")[2]
            bindings = inner.startswith("csrc/") and inner.endswith((".cpp", ".h"))
            if member.isfile() and (bindings or inner.endswith((".py", ".toml"))):
                member.name = inner.removeprefix(strip)
                tar.extract(member, folder, filter="data")


def published_versions(name: str) -> list[Version]:
    """The versions of a project that the package index has a source release of, oldest first.

    Raises:
        UserError: the project is unknown, or the index is out of reach.
    """
    if name not in PACKAGES:
        raise UserError(f"{name}: unknown project; known are {', '.join(PACKAGES)}")
    from unearth.preparer import HTTPErrors

    try:
        with _finder(name) as finder, _Complaints() as complaints:
            versions = sorted(_packages(finder, name))
    except HTTPErrors as error:
        raise UserError(_out_of_reach(name, name, str(error) or type(error).__name__)) from None
    if not versions and complaints.lines:
        raise UserError(_out_of_reach(name, name, complaints.lines[0]))
    return versions


def kept_versions(name: str) -> list[Version]:
    """The versions of a project that lie unpacked in the cache, oldest first."""
    found = []
    for path in sources_folder().glob(f"{name}-[0-9]*"):
        try:
            found.append(Version(path.name.removeprefix(f"{name}-")))
        except InvalidVersion:
            continue
    return sorted(found)


def _download(release: Release, scratch: Path) -> tuple[Path, str]:
    """The archive of a release, and its version as the index spells it."""
    with DownloadProgress(f"{release}") as progress, _finder(release.name, str(release)) as finder:
        with _Complaints() as complaints:
            versions = _packages(finder, release.name)
        wanted = versions.get(Version(release.version))
        if wanted is None:
            if not versions and complaints.lines:
                raise UserError(_out_of_reach(str(release), release.name, complaints.lines[0]))
            raise UserError(_unknown(release, sorted(versions)))
        archive = finder.download(wanted.link, scratch, download_reporter=progress.report)
        return archive, str(Version(wanted.version or release.version))


def _packages(finder: PackageFinder, name: str) -> dict[Version, Package]:
    packages = finder.find_all_packages(name, allow_yanked=True)
    return {Version(package.version): package for package in packages if package.version}


@contextmanager
def _finder(name: str, what: str = "") -> Iterator[PackageFinder]:
    from unearth import PackageFinder
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import PyPIClient

    from dtypefix.sources.pip_settings import read_settings

    settings = read_settings()
    if not settings.index_urls and not settings.find_links:
        raise UserError(_out_of_reach(what or name, name, "pip is configured to use no index"))
    verify = ssl.create_default_context(cafile=settings.certificates) if settings.certificates else True
    with PyPIClient(
        trusted_hosts=settings.trusted_hosts, verify=verify, follow_redirects=True, timeout=30
    ) as client:
        client.auth = MultiDomainBasicAuth(index_urls=list(settings.index_urls))
        yield PackageFinder(
            cast("Fetcher", client),
            index_urls=settings.index_urls,
            find_links=settings.find_links,
            trusted_hosts=settings.trusted_hosts,
            ignore_compatibility=True,  # the sources are read, never run
            no_binary=[name],
        )


class _Complaints(logging.Handler):
    """Collects what the client library would log about an index that does not answer properly."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self._logger = logging.getLogger("unearth")

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> _Complaints:
        self._logger.addHandler(self)
        self._propagates, self._logger.propagate = self._logger.propagate, False
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagates


def _unknown(release: Release, known: Sequence[Version]) -> str:
    if not known:
        return f"{release}: the package index has no source release of {release.name}"
    wanted = Version(release.version)
    below = [str(version) for version in known if version < wanted][-NEAREST:]
    above = [str(version) for version in known if version > wanted][:NEAREST]
    return f"{release}: no such source release; the nearest are {', '.join(below + above)}"


def _out_of_reach(what: str, name: str, why: str) -> str:
    versions = [str(version) for version in kept_versions(name)]
    kept = f"kept there now: {', '.join(versions)}" if versions else f"none of {name} is kept there now"
    return (
        f"{what}: the package index cannot be reached ({' '.join(why.split())}); "
        f"a release already in {sources_folder()} works offline, {kept}"
    )
