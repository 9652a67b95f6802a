"""A tree made importable: its Python files, a runtime's compiled extensions, nothing else.

Only compiled extensions are linked from the runtime. Were the wheel's Python files reachable too, a
module that the patch deleted or renamed would be taken from there and the fault would be masked.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dtypefix.errors import UserError

KEPT = 8
SKIPPED = frozenset({"__pycache__", ".git"})
_VERSION = re.compile(r"""^(?:__version__\s*=\s*)?version\s*=\s*['"]([^'"]+)['"]""", re.MULTILINE)
_RELEASE = re.compile(r"\d+\.\d+(?:\.\d+)?[^+\s]*")


@dataclass(frozen=True, slots=True)
class Overlay:
    """A directory for ``PYTHONPATH`` that holds ``vllm/``, and the cache folder that goes with it."""

    root: Path
    version: str
    digest: str
    extensions: bool

    @property
    def cache(self) -> Path:
        """``VLLM_CACHE_ROOT`` of this tree: two trees in one cache evict each other's model facts."""
        return self.root.with_name(self.root.name + ".cache")


def check_tree(tree: Path) -> Path:
    """The root of a checkout, unpacked source release or installed package that holds ``vllm/``.

    Raises:
        UserError: there is no vLLM in it.
    """
    tree = tree.resolve()
    if (tree / "vllm" / "__init__.py").is_file():
        return tree
    if tree.name == "vllm" and (tree / "__init__.py").is_file():
        return tree.parent
    raise UserError(f"{tree}: no vllm/__init__.py in it; name the root of a vLLM checkout or source release")


def tree_version(tree: Path) -> str:
    """The release a tree is of: from ``_version.py``, metadata beside it, its folder's name, or ``0.0.0``."""
    version_file = tree / "vllm" / "_version.py"
    if version_file.is_file() and (match := _VERSION.search(version_file.read_text("utf-8", "replace"))):
        return match.group(1).partition("+")[0]
    for metadata in sorted(tree.glob("vllm*.dist-info/METADATA")) + sorted(tree.glob("PKG-INFO")):
        for line in metadata.read_text("utf-8", "replace").splitlines():
            if line.startswith("Version: "):
                return line.removeprefix("Version: ").partition("+")[0]
    match = _RELEASE.search(tree.name)
    return match.group(0) if match else "0.0.0"


def tree_digest(tree: Path) -> str:
    """A hash over the path and the bytes of every file under ``vllm/``."""
    digest = hashlib.sha256()
    for file in _files(tree / "vllm"):
        digest.update(file.relative_to(tree).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:20]


def build(tree: Path, extensions: Path | None, folder: Path, *, local: str = "cpu") -> Overlay:
    """Lay out a tree for import, or reuse the layout of an identical one.

    Args:
        tree: the root that holds ``vllm/``.
        extensions: the installed ``vllm`` package whose ``*.so`` files are linked, or None for none:
            model-level probes run without any.
        folder: where overlays are kept.
        local: the local version label; vLLM takes its CPU platform when the label says ``cpu``, and
            looks for a device when it is empty.

    Raises:
        UserError: there is no vLLM in the tree.
    """
    tree = check_tree(tree)
    version, digest = tree_version(tree), tree_digest(tree)
    suffix = hashlib.sha256(f"{extensions}+{local}".encode()).hexdigest()[:8]
    root = folder / f"{digest}-{suffix}"
    overlay = Overlay(root, version, digest, extensions is not None)
    if root.is_dir():
        os.utime(root)
        return overlay
    folder.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix="partial-", dir=folder))
    try:
        shutil.copytree(
            tree / "vllm",
            partial / "vllm",
            ignore=lambda _, names: [n for n in names if n in SKIPPED or n.endswith((".so", ".pyc"))],
        )
        if extensions is not None:
            for library in sorted(extensions.rglob("*.so")):
                target = partial / "vllm" / library.relative_to(extensions)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(library)
        _write_metadata(partial, version, local)
        try:
            partial.rename(root)
        except OSError:
            # Another run laid out the same tree first; its layout is identical.
            if not root.is_dir():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _prune(folder)
    return overlay


def _write_metadata(root: Path, version: str, local: str) -> None:
    full = f"{version}+{local}" if local else version
    info = root / f"vllm-{full}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {full}\n")
    version_file = root / "vllm" / "_version.py"
    if not version_file.exists():
        parts = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
        version_file.write_text(
            f"__version__ = version = {version!r}\n__version_tuple__ = version_tuple = {parts!r}\n"
        )


def _files(root: Path) -> list[Path]:
    return sorted(
        Path(folder, name)
        for folder, folders, names in os.walk(root)
        for name in names
        if not (SKIPPED & set(Path(folder).parts)) and not name.endswith((".pyc", ".so"))
    )


def _prune(folder: Path) -> None:
    layouts = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.endswith(".cache")]
    layouts = [entry for entry in layouts if not entry.name.startswith("partial-")]
    for old in sorted(layouts, key=lambda entry: entry.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(old.with_name(old.name + ".cache"), ignore_errors=True)
