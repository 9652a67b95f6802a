from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dtypefix.report.diff import unified_diff

BODY = b"".join(b"line %d\n" % number for number in range(40))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb\n", b"a\nc\n"),
        (b"a\nb", b"a\nc"),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nb"),
        (b"a\r\nb\r\n", b"a\r\nc\r\n"),
        (b"a\rb\nc\x0c\nd\n", b"a\rb\nc\x0c\ne\n"),
        (b"-- x\n++ y\nz\n", b"-- x\nz\n"),
        (BODY, BODY.replace(b"line 3\n", b"").replace(b"line 30\n", b"line 30\nmore\n")),
        ("é\n".encode("latin-1"), "è\n".encode("latin-1")),
        (b"", b"import x\n"),
    ],
)
@pytest.mark.parametrize("name", ["a.py", "a b.py", "dir/é.py", 'q"u\\o\te.py'])
def test_git_apply_turns_before_into_after(tmp_path: Path, name: str, before: bytes, after: bytes) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(before)
    diff = b"".join(unified_diff(name.encode(), before, after))
    subprocess.run(["git", "apply", "-"], input=diff, cwd=tmp_path, check=True)
    assert file.read_bytes() == after


def test_no_change_is_no_diff() -> None:
    assert list(unified_diff(b"a.py", BODY, BODY)) == []


def test_only_the_lines_around_a_change_are_shown() -> None:
    diff = b"".join(unified_diff(b"a.py", BODY, BODY.replace(b"line 20\n", b"line twenty\n")))
    assert diff.startswith(b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -18,7 +18,7 @@\n line 17\n")
    assert diff.count(b"\n") == 4 + 8
