"""``compare`` and ``history``, on small trees, git revisions and releases made for the tests."""

from __future__ import annotations

import json
import os
import subprocess
import xml.dom.minidom
from pathlib import Path

import pytest

from tests.cli.conftest import SAFE

ERROR = 'class A:\n    def f(self):\n        return ambient("error", "manual")\n'
NOTE = 'x = ambient("note", "manual")\n'


@pytest.fixture
def releases(tmp_path: Path) -> dict[str, str]:
    """A cache of three releases: one finding is fixed, one moves to another folder, one comes in."""
    contents = {
        "0.20.2": {"vllm/a.py": SAFE, "vllm/old/b.py": ERROR},
        "0.21.0": {"vllm/a.py": "x = 1\n" + SAFE, "vllm/new/b.py": ERROR},
        "0.22.1": {"vllm/new/b.py": ERROR, "vllm/c.py": SAFE + NOTE},
    }
    for version, files in contents.items():
        for name, text in files.items():
            path = tmp_path / "sources" / f"vllm-{version}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return {"DTYPEFIX_SOURCES": str(tmp_path / "sources"), "PIP_NO_INDEX": "1"}


def outcome(done: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    document = json.loads(done.stdout)
    return {
        part: [f"{f['path']}:{f['line']}" for f in document[part]] for part in ("new", "fixed", "remaining")
    }


def test_releases_are_compared_and_moves_are_no_change(run, releases) -> None:
    moved = run("compare", "vllm==0.20.2", "vllm==0.21.0", "--format", "json", env=releases)
    assert moved.returncode == 0
    assert outcome(moved) == {"new": [], "fixed": [], "remaining": ["vllm/a.py:3", "vllm/new/b.py:3"]}
    changed = run("compare", "vllm==0.21.0", "vllm==0.22.1", "--format", "json", env=releases)
    assert changed.returncode == 1
    assert outcome(changed) == {
        "new": ["vllm/c.py:2", "vllm/c.py:3"],
        "fixed": ["vllm/a.py:3"],
        "remaining": ["vllm/new/b.py:3"],
    }
    assert json.loads(changed.stdout)["summary"] == {"demo-call": {"new": 2, "fixed": 1, "remaining": 1}}


def test_the_text_lists_new_and_fixed_and_counts_by_rule(run, releases) -> None:
    lines = run("compare", "vllm==0.21.0", "vllm==0.22.1", env=releases).stdout.splitlines()
    assert lines == [
        "New",
        "vllm/c.py:2:12: warning demo-call: the dtype comes from ambient [safe fix]",
        "",
        "Fixed",
        "vllm/a.py:3:12: warning demo-call: the dtype comes from ambient [safe fix]",
        "",
        "vllm==0.21.0 → vllm==0.22.1",
        "                   new      fixed  remaining",
        "  demo-call          1          1          1",
    ]


def test_notes_alone_are_nothing_new(run, tmp_path: Path) -> None:
    for name, text in (("a", "x = 1\n"), ("b", NOTE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.py").write_text(text)
    done = run("compare", "a", "b")
    assert (done.returncode, done.stdout) == (0, "a → b\n  no findings in either\n")
    assert "m.py:1:5: note" in run("compare", "a", "b", "--show-notes").stdout


def test_markdown_is_a_comment_for_a_pull_request(run, releases) -> None:
    text = run("compare", "vllm==0.21.0", "vllm==0.22.1", "--format", "markdown", env=releases).stdout
    assert text.startswith("## dtypefix: `vllm==0.21.0` → `vllm==0.22.1`\n")
    assert "| `demo-call` | 1 | 1 | 1 |" in text
    assert "### New\n\n- `vllm/c.py:2:12` warning `demo-call`:" in text


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository whose first commit has one finding and whose second has another besides."""
    folder = tmp_path / "checkout"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "pkg" / "a.py").write_text(SAFE)
    (folder / ".gitattributes").write_text("pkg/ export-ignore\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    (folder / "pkg" / "b.py").write_text(ERROR)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "two")
    return folder


def git(folder: Path, *arguments: str) -> str:
    who = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **who}, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_revisions_are_compared_without_touching_the_checkout(run, checkout: Path) -> None:
    (checkout / "pkg" / "a.py").write_text("broken (\n")
    before = git(checkout, "status", "--porcelain")
    done = run("compare", "HEAD~1", "HEAD", "--format", "json", cwd=checkout)
    assert done.returncode == 1
    assert outcome(done) == {"new": ["pkg/b.py:3"], "fixed": [], "remaining": ["pkg/a.py:2"]}
    assert git(checkout, "status", "--porcelain") == before


def test_a_revision_is_compared_with_the_working_tree(run, checkout: Path) -> None:
    (checkout / "pkg" / "b.py").unlink()
    done = run("compare", "HEAD", "pkg", "--format", "json", cwd=checkout)
    assert outcome(done) == {"new": [], "fixed": ["pkg/b.py:3"], "remaining": ["pkg/a.py:2"]}


def test_a_shallow_clone_and_a_worktree_will_do(run, checkout: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--depth", "1", checkout.as_uri(), "shallow")
    done = run("compare", "HEAD", ".", cwd=tmp_path / "shallow")
    assert done.returncode == 0, done.stderr
    git(checkout, "worktree", "add", "--quiet", str(tmp_path / "tree"), "HEAD~1")
    done = run("compare", "HEAD", "HEAD@{0}", "--format", "json", cwd=tmp_path / "tree")
    assert outcome(done)["remaining"] == ["pkg/a.py:2"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["compare", "nowhere", "."], "nowhere: no such path, git revision or release"),
        (["compare", "--", "-x", "."], "-x: no such path, git revision or release"),
        (["compare", "vllm==9.9.9", "."], "vllm==9.9.9: "),
        (["history", "torch", "1..2"], "torch: unknown project; known are vllm"),
        (["history", "vllm", "0.21.0..0.20.2", "--offline"], "write 0.20.2..0.21.0"),
        (["history", "vllm", "0.20.2..0.24.0", "--offline"], "0.24.0: no such release; the nearest are"),
        (["history", "vllm", "x..0.22.1", "--offline"], "'x' is no version"),
        (["history", "vllm", "0.20.2..0.22.1", "--offline", "--output-file", "x.png"], "end it in one of"),
    ],
)
def test_a_bad_request_is_one_line(run, releases, tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    done = run(*arguments, env=releases)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_history_counts_by_rule_and_release(run, releases) -> None:
    done = run("history", "vllm", "0.20.2..0.22.1", "--offline", env=releases)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "vllm       0.20.2  0.21.0  0.22.1",
        "demo-call       2       2       2",
        "all             2       2       2",
    ]
    notes = run(
        "history", "vllm", "0.21.0,0.22.1", "--offline", "--show-notes", "--format", "csv", env=releases
    )
    assert notes.stdout == "rule,0.21.0,0.22.1\ndemo-call,2,3\n"


def test_history_draws_a_heat_map(run, releases, tmp_path: Path) -> None:
    files = ["--output-file", "h.svg", "--output-file", "h.html"]
    assert run("history", "vllm", "..", "--offline", *files, env=releases).returncode == 0
    drawing = xml.dom.minidom.parse(str(tmp_path / "h.svg"))
    titles = [title.firstChild.data for title in drawing.getElementsByTagName("title")]
    assert titles == ["demo-call, 0.20.2: 2", "demo-call, 0.21.0: 2", "demo-call, 0.22.1: 2"]
    assert "<svg" in (tmp_path / "h.html").read_text()
