from __future__ import annotations

import os
from pathlib import Path

import pytest

from dtypefix.edits.write import write_file
from dtypefix.errors import UserError


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"someone else's\n")
    with pytest.raises(UserError, match="changed by someone else"):
        write_file(file, b"before\n", b"after\n")
    assert file.read_bytes() == b"someone else's\n"
    assert os.listdir(tmp_path) == ["a.py"]


def test_the_replacement_is_a_new_file_with_the_old_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"before\n")
    file.chmod(0o640)
    reader = file.open("rb")
    write_file(file, b"before\n", b"after\n")
    with reader:
        assert reader.read() == b"before\n"
    assert file.read_bytes() == b"after\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_missing_folder_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"denied|No such"):
        write_file(tmp_path / "gone/a.py", b"", b"x\n")
