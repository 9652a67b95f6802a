from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dtypefix.errors import UserError
from dtypefix.sources.releases import Release, parse_release, release_root, sources_folder


def pack(archive: Path, files: Mapping[str, str]) -> None:
    with tarfile.open(archive, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{archive.name.removesuffix('.tar.gz')}/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))


VLLM = {
    "vllm/__init__.py": "",
    "vllm/kernel.cu": "",
    "csrc/torch_bindings.cpp": "",
    "csrc/ops.h": "",
    "csrc/kernel.cu": "",
    "other/binding.cpp": "",
    "pyproject.toml": "",
    "README.md": "",
}


class Index:
    """A package index in a folder, and an empty cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "index"
        self.folder.mkdir()
        self.cache = folder / "cache"

    def add(self, name: str, version: str, files: Mapping[str, str], sha256: str | None = None) -> None:
        archive = self.folder / f"{name.replace('-', '_')}-{version}.tar.gz"
        pack(archive, files)
        page = self.folder / name / "index.html"
        page.parent.mkdir(exist_ok=True)
        digest = sha256 or hashlib.sha256(archive.read_bytes()).hexdigest()
        with page.open("a") as file:
            file.write(f'<a href="{archive.as_uri()}#sha256={digest}">{archive.name}</a>\n')

    def kept(self) -> list[str]:
        return sorted(path.name for path in self.cache.iterdir())


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    made = Index(tmp_path)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", made.folder.as_uri())
    monkeypatch.setenv("DTYPEFIX_SOURCES", str(made.cache))
    return made


def test_what_is_unpacked_is_python_toml_and_operator_bindings(index: Index) -> None:
    index.add("vllm", "0.1.7", VLLM)
    root = release_root(Release("vllm", "0.1.7"))
    assert root == index.cache / "vllm-0.1.7"
    found = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    assert found == ["csrc/ops.h", "csrc/torch_bindings.cpp", "pyproject.toml", "vllm/__init__.py"]
    assert index.kept() == ["vllm-0.1.7"]


def test_spellings_of_one_version_share_a_folder(index: Index) -> None:
    index.add("vllm", "0.6.0", VLLM)
    root = release_root(Release("vllm", "0.6"))
    assert root == release_root(Release("vllm", "0.6.0")) == index.cache / "vllm-0.6.0"
    (index.folder / "vllm/index.html").unlink()
    assert release_root(Release("vllm", "0.6")) == root
    assert index.kept() == ["vllm-0.6.0"]


def test_a_kept_release_needs_no_index(index: Index) -> None:
    index.add("vllm", "0.1.7", VLLM)
    first = release_root(Release("vllm", "0.1.7"))
    (index.folder / "vllm/index.html").unlink()
    assert release_root(Release("vllm", "0.1.7")) == first


def test_the_python_folder_of_sglang_is_taken_off(index: Index) -> None:
    index.add("sglang", "0.5.8", {"python/sglang/__init__.py": "", "pyproject.toml": ""})
    root = release_root(Release("sglang", "0.5.8"))
    assert (root / "sglang/__init__.py").is_file()


def test_an_unknown_version_names_the_nearest(index: Index) -> None:
    for version in ("0.1.0", "0.2.0", "0.3.0", "0.10.0", "0.11.0"):
        index.add("vllm", version, {"vllm/__init__.py": ""})
    with pytest.raises(
        UserError, match=r"no such source release; the nearest are 0\.2\.0, 0\.3\.0, 0\.10\.0, 0\.11\.0$"
    ):
        release_root(Release("vllm", "0.9.0"))
    assert index.kept() == []


def test_a_project_without_source_releases_is_said(index: Index) -> None:
    with pytest.raises(UserError, match=r"no source release of vllm|cannot be reached"):
        release_root(Release("vllm", "0.9.0"))


def test_a_damaged_download_is_refused_and_leaves_nothing(index: Index) -> None:
    index.add("vllm", "0.1.7", VLLM, sha256="0" * 64)
    with pytest.raises(UserError, match="damaged"):
        release_root(Release("vllm", "0.1.7"))
    assert index.kept() == []


def test_an_archive_cannot_write_outside_its_folder(index: Index) -> None:
    index.add("vllm", "0.1.7", {"vllm/__init__.py": "", "../../../escaped.py": ""})
    with pytest.raises(UserError, match="cannot be unpacked"):
        release_root(Release("vllm", "0.1.7"))
    assert index.kept() == []
    assert not list(index.cache.parent.glob("**/escaped.py"))


def test_runs_at_the_same_time_share_one_release(index: Index) -> None:
    index.add("vllm", "0.1.7", VLLM)
    with ThreadPoolExecutor(4) as pool:
        roots = set(pool.map(release_root, [Release("vllm", "0.1.7")] * 4))
    assert roots == {index.cache / "vllm-0.1.7"}
    assert index.kept() == ["vllm-0.1.7"]


def test_an_archive_beside_the_index_is_found(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    index.add("vllm", "0.1.7", VLLM)
    monkeypatch.delenv("PIP_INDEX_URL")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index.folder))
    assert release_root(Release("vllm", "0.1.7")).is_dir()


@pytest.mark.parametrize(
    ("argument", "release", "subpath"),
    [
        ("vllm==0.33.0", Release("vllm", "0.33.0"), ""),
        ("VLLM == v0.33.0", Release("vllm", "0.33.0"), ""),
        ("vllm_ascend==0.26.0-rc1", Release("vllm-ascend", "0.26.0rc1"), ""),
        ("vllm==0.20.2:vllm/model_executor/", Release("vllm", "0.20.2"), "vllm/model_executor"),
    ],
)
def test_release_arguments(argument: str, release: Release, subpath: str) -> None:
    assert parse_release(argument) == (release, subpath)


def test_the_cache_is_the_users_own_unless_a_folder_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DTYPEFIX_SOURCES", str(tmp_path))
    assert sources_folder() == tmp_path
    monkeypatch.delenv("DTYPEFIX_SOURCES")
    assert sources_folder().parts[-2:] == ("dtypefix", "sources")
