from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dtypefix.errors import UserError
from dtypefix.sources.target import Target
from dtypefix.sources.targets import is_release, resolve, stdin_target, vllm_root


def fill(folder: Path, *names: str) -> None:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x = 1\n")


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *identity, "-C", folder, *arguments], check=True, capture_output=True)


def names(target: Target) -> list[str]:
    return [target.display(file) for file in target.files]


def take(folder: Path, *arguments: str) -> Target:
    return resolve(arguments, working_directory=folder)


def test_a_checkout_yields_tracked_and_untracked_but_no_ignored_or_deleted_files(tmp_path: Path) -> None:
    fill(tmp_path, "tracked.py", "gone.py", "untracked.py", "ignored.py", "notes.txt", "stub.pyi")
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "tracked.py", "gone.py")
    (tmp_path / "gone.py").unlink()
    assert names(take(tmp_path)) == ["tracked.py", "untracked.py"]
    assert names(take(tmp_path, ".")) == ["tracked.py", "untracked.py"]


def test_a_file_named_by_hand_is_taken_even_if_git_ignores_it(tmp_path: Path) -> None:
    fill(tmp_path, "ignored.py", "script")
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    git(tmp_path, "init", "-q")
    assert names(take(tmp_path, "ignored.py", "script")) == ["ignored.py", "script"]


def test_a_directory_named_by_hand_is_taken_even_if_git_ignores_it(tmp_path: Path) -> None:
    fill(tmp_path, "build/a.py", "b.py")
    (tmp_path / ".gitignore").write_text("build/\n")
    git(tmp_path, "init", "-q")
    assert names(take(tmp_path, "build")) == ["build/a.py"]


def test_files_of_a_submodule_belong_to_the_checkout(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    for folder in (inner, outer):
        folder.mkdir()
        git(folder, "init", "-q")
    fill(inner, "deep/a.py")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "x")
    git(outer, "submodule", "add", "-q", str(inner), "part.one")
    fill(outer, "b.py")
    assert names(take(outer)) == ["b.py", "part.one/deep/a.py"]


def test_a_worktree_is_a_checkout(tmp_path: Path) -> None:
    main = tmp_path / "main"
    fill(main, "a.py")
    git(main, "init", "-q")
    git(main, "add", ".")
    git(main, "commit", "-qm", "x")
    git(main, "worktree", "add", "-q", "../other")
    assert names(take(tmp_path / "other")) == ["a.py"]


def test_outside_a_checkout_litter_is_left_out(tmp_path: Path) -> None:
    fill(tmp_path, "a.py", ".hidden/b.py", "__pycache__/c.py", "env/lib/d.py", "env/pyvenv.cfg", "sub/e.py")
    assert names(take(tmp_path)) == ["a.py", "sub/e.py"]


def test_an_environment_that_git_would_track_is_left_out(tmp_path: Path) -> None:
    fill(tmp_path, "a.py", "env/lib/deep/d.py", "env/pyvenv.cfg")
    git(tmp_path, "init", "-q")
    assert names(take(tmp_path)) == ["a.py"]


def test_without_git_a_directory_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "a.py", "ignored.py")
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    git(tmp_path, "init", "-q")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert names(take(tmp_path)) == ["a.py", "ignored.py"]


def test_the_index_of_a_hook_does_not_hide_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "a.py")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "no-index"))
    assert names(take(tmp_path)) == ["a.py"]


def test_a_file_reached_twice_is_read_once_and_the_file_wins_over_its_link(tmp_path: Path) -> None:
    fill(tmp_path, "pkg/a.py")
    (tmp_path / "link.py").symlink_to("pkg/a.py")
    (tmp_path / "also").symlink_to("pkg")
    target = take(tmp_path, "link.py", "./pkg/../pkg/a.py", "pkg", "also/a.py")
    assert names(target) == ["pkg/a.py"]
    assert names(take(tmp_path, "link.py")) == ["link.py"]


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    fill(tmp_path, "pkg/a.py")
    (tmp_path / "pkg/loop").symlink_to("..")
    (tmp_path / "self.py").symlink_to("self.py")
    assert names(take(tmp_path, ".")) == ["pkg/a.py", "self.py"]


def test_what_is_no_regular_file_is_left_out_or_said(tmp_path: Path) -> None:
    fill(tmp_path, "a.py")
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    assert names(take(tmp_path, ".")) == ["a.py"]
    target = take(tmp_path, "pipe.py", "a.py", "folder.py")
    assert names(target) == ["a.py"]
    assert [skipped.path for skipped in target.skipped] == ["pipe.py", "folder.py"]


def test_an_argument_that_cannot_be_used_does_not_stop_the_others(tmp_path: Path) -> None:
    fill(tmp_path, "a.py", "data/notes.txt")
    target = take(tmp_path, "missing", "data", "a.py")
    assert names(target) == ["a.py"]
    reasons = {skipped.path: skipped.reason for skipped in target.skipped}
    assert reasons == {"missing": "no such file or directory", "data": "no Python files in this directory"}


def test_nothing_to_read_without_arguments_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no Python files"):
        take(tmp_path)


def test_a_path_outside_the_working_directory_is_shown_relative_to_it(tmp_path: Path) -> None:
    fill(tmp_path, "a.py", "sub/b.py")
    assert names(take(tmp_path / "sub", "../a.py", str(tmp_path / "sub/b.py"))) == ["../a.py", "b.py"]


def test_an_undecodable_name_is_shown_escaped(tmp_path: Path) -> None:
    fill(tmp_path, os.fsdecode(b"caf\xe9.py"))
    assert names(take(tmp_path, ".")) == ["caf\\xe9.py"]


def test_imports_are_looked_up_beside_the_packages_then_in_the_checkout(tmp_path: Path) -> None:
    fill(
        tmp_path, "python/pkg/__init__.py", "python/pkg/sub/__init__.py", "python/pkg/sub/a.py", "tests/t.py"
    )
    git(tmp_path, "init", "-q")
    sub = tmp_path / "python/pkg/sub"
    assert take(sub, "a.py").search_roots == (tmp_path / "python", tmp_path, sub)
    assert stdin_target("new.py", working_directory=sub).search_roots == (tmp_path / "python", tmp_path, sub)


def test_an_existing_file_is_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_release("vllm==1")
    assert is_release("vllm == 1:sub")
    assert not is_release("vllm")
    fill(tmp_path, "vllm==1")
    assert not is_release("vllm==1")


def test_the_vllm_root_may_be_the_package_or_the_folder_that_holds_it(tmp_path: Path) -> None:
    fill(tmp_path, "tree/vllm/__init__.py", "other/a.py")
    assert vllm_root("tree", working_directory=tmp_path) == tmp_path / "tree"
    assert vllm_root("tree/vllm", working_directory=tmp_path) == tmp_path / "tree"
    with pytest.raises(UserError, match="no vllm package"):
        vllm_root("other", working_directory=tmp_path)
