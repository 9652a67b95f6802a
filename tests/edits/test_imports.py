from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dtypefix.analysis.module import Module
from dtypefix.edits import compose
from dtypefix.edits.imports import import_edit, orphaned_import_edits

LONG = "from vllm.config import " + ", ".join(f"Config{n}" for n in range(8))


def added(source: str, origin: str = "vllm.config", name: str = "get_config") -> str | None:
    edit = import_edit(Module("f.py", source.encode()), origin, name, 88)
    return None if edit is None else compose.apply(source.encode(), [edit]).decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from vllm.config import A\n", "from vllm.config import A, get_config\n"),
        ("from vllm.config import A, zeta\n", "from vllm.config import A, get_config, zeta\n"),
        (
            "from vllm.config import (\n    A,\n    zeta,\n)\n",
            "from vllm.config import (\n    A,\n    get_config,\n    zeta,\n)\n",
        ),
        (
            "from vllm.config import (\n    A,  # why\n    B,\n)\n",
            "from vllm.config import (\n    A,  # why\n    B,\n    get_config,\n)\n",
        ),
        (
            "import torch\n\nfrom vllm.a import x\nfrom vllm.utils import y\n",
            "import torch\n\nfrom vllm.a import x\n"
            "from vllm.config import get_config\nfrom vllm.utils import y\n",
        ),
        (
            "import torch\n\nfrom vllm.a import (\n    x,\n)\n",
            "import torch\n\nfrom vllm.a import (\n    x,\n)\nfrom vllm.config import get_config\n",
        ),
        ("import torch\n", "import torch\n\nfrom vllm.config import get_config\n"),
    ],
)
def test_an_import_is_added_in_sorted_place(before: str, after: str) -> None:
    assert added(before) == after


def test_a_line_that_would_be_too_long_is_broken_as_ruff_breaks_it() -> None:
    text = added(LONG + "\n")
    assert text is not None
    assert text.startswith("from vllm.config import (\n    Config0,\n")
    assert text.endswith("    Config7,\n    get_config,\n)\n")


@pytest.mark.parametrize(
    "source",
    ["from vllm.config import get_config\n", "from vllm.config import *\n", "x = 1\n"],
)
def test_nothing_is_added_where_it_stands_already_or_no_place_is_sure(source: str) -> None:
    assert added(source) is None


def test_what_is_added_passes_ruffs_import_order_and_format(tmp_path: Path) -> None:
    sources = [
        "import torch\n\nfrom vllm.a import x\nfrom vllm.utils import y\n\nprint(torch, x, y, get_config)\n",
        LONG + "\n\nprint(get_config)\n" + "".join(f"print(Config{n})\n" for n in range(8)),
        "from vllm.config import (\n    A,  # why\n    B,\n)\n\nprint(A, B, get_config)\n",
    ]
    (tmp_path / "vllm").mkdir()
    for name in ("__init__", "a", "config", "utils"):
        (tmp_path / "vllm" / f"{name}.py").touch()
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 88\n")
    for number, source in enumerate(sources):
        text = added(source)
        assert text is not None
        (tmp_path / f"f{number}.py").write_text(text)
    for arguments in (["check", "--select", "I"], ["format", "--check"]):
        run = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--no-cache", "."],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stdout


def orphaned(before: str, after: str) -> str:
    old, new = Module("f.py", before.encode()), Module("f.py", after.encode())
    return compose.apply(after.encode(), orphaned_import_edits(old, new)).decode()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("import torch\n\nx = torch.y\n", "import torch\n\nx = 1\n", "x = 1\n"),
        ("from a import b, c\n\nx = b + c\n", "from a import b, c\n\nx = c\n", "from a import c\n\nx = c\n"),
        (
            "from a import (\n    b,\n    c,\n)\n\nx = b + c\n",
            "from a import (\n    b,\n    c,\n)\n\nx = b\n",
            "from a import (\n    b,\n)\n\nx = b\n",
        ),
        (
            '"""Doc."""\n\nimport a\n\nimport b\n\na, b\n',
            '"""Doc."""\n\nimport a\n\nimport b\n\nb\n',
            '"""Doc."""\n\nimport b\n\nb\n',
        ),
    ],
)
def test_an_import_that_lost_its_last_use_goes(before: str, after: str, expected: str) -> None:
    assert orphaned(before, after) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\n\nx = 1\n", "import torch\n\nx = 2\n"),
        ("import torch  # side effect\n\nx = torch.y\n", "import torch  # side effect\n\nx = 1\n"),
        ('import b\n\n__all__ = ["b"]\nx = b\n', 'import b\n\n__all__ = ["b"]\nx = 1\n'),
        ('import b\n\n\ndef f(x: "b.T"):\n    return b\n', 'import b\n\n\ndef f(x: "b.T"):\n    return 1\n'),
    ],
)
def test_an_import_that_may_still_matter_stays(before: str, after: str) -> None:
    assert orphaned(before, after) == after


@pytest.mark.parametrize(
    "shared",
    [
        "import os; import torch; x = os.sep\n",
        "import torch; x = 1\n",
        "x = 1; import torch\n",
        "x = 1; \\\nimport torch\n",
    ],
)
def test_an_import_that_shares_its_line_is_neither_removed_nor_followed(shared: str) -> None:
    before, after = Module("f.py", f"{shared}torch.y\n".encode()), Module("f.py", shared.encode())
    assert orphaned_import_edits(before, after) == []
    assert added(shared) is None


def test_a_string_that_begins_behind_an_import_stays_whole() -> None:
    assert added('import torch; x = """\n"""\n') is None
