from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import CLEAN, SAFE

ONE = 'x = ambient("error", "manual")\n'
CALLER = "from pkg.base import settled\n\n\ndef g():\n    return settled\n"


class Repository:
    """A git repository in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str, **options) -> str:
        done = subprocess.run(
            ["git", "-c", "user.email=a@b.c", "-c", "user.name=a", *arguments],
            cwd=self.folder, capture_output=True, text=True, check=True, **options,
        )  # fmt: skip
        return done.stdout.strip()

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "work")


def places(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode in (0, 1), done.stderr
    return [f"{found['path']}:{found['line']}" for found in json.loads(done.stdout)["findings"]]


def since(run, repository: Repository, revision: str, *arguments: str, cwd: Path | None = None) -> list[str]:
    done = run("scan", "--diff-base", revision, "--format", "json", *arguments, cwd=cwd or repository.folder)
    return places(done)


def test_only_findings_in_changed_lines_are_reported(run, repository: Repository) -> None:
    repository.write(a=ONE + CLEAN + ONE)
    repository.commit()
    repository.write(a=ONE + CLEAN + 'y = ambient("warning", "safe")\n' + ONE, new=SAFE)
    assert since(run, repository, "HEAD") == ["a.py:4", "new.py:2"]
    assert run("scan", "--diff-base", "HEAD", "a.py", cwd=repository.folder).returncode == 1
    repository.commit()
    assert since(run, repository, "HEAD") == []
    assert since(run, repository, "HEAD~1") == ["a.py:4", "new.py:2"]


def test_what_others_changed_on_the_base_meanwhile_does_not_count(run, repository: Repository) -> None:
    repository.write(a=ONE, b=CLEAN)
    repository.commit()
    repository.git("checkout", "-q", "-b", "topic")
    repository.write(b=SAFE)
    repository.commit()
    repository.git("checkout", "-q", "main")
    repository.write(a=CLEAN)
    repository.commit()
    repository.git("checkout", "-q", "topic")
    assert since(run, repository, "main") == ["b.py:2"]


def test_lines_that_went_away_change_the_lines_around_them(run, repository: Repository) -> None:
    repository.write(a="guard()\n" + ONE + "a = 1\nb = 2\n" + ONE)
    repository.commit()
    repository.write(a=ONE + "a = 1\nb = 2\n" + ONE)
    assert since(run, repository, "HEAD") == ["a.py:1"]


def test_a_renamed_file_counts_for_the_lines_that_changed_in_it(run, repository: Repository) -> None:
    body = "".join(f"a{n} = {n}\n" for n in range(40))
    repository.write(a=ONE + body)
    repository.commit()
    repository.git("mv", "a.py", "new name.py")
    (repository.folder / "new name.py").write_text(ONE + body + ONE)
    assert since(run, repository, "HEAD") == ["new name.py:42"]


def test_a_finding_elsewhere_counts_if_its_evidence_lies_in_a_change(run, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "work")
    faulty = (
        "import torch\n"
        "from vllm.model_executor.layers.linear import ColumnParallelLinear\n\n\n"
        "class Drafter:\n"
        "    def __init__(self, quant_config):\n"
        "        self.fc = ColumnParallelLinear(4, 4, quant_config=quant_config)\n\n"
        "    def combine_hidden_states(self, hidden_states):\n"
        "        return self.fc(hidden_states)\n"
    )
    linear = repository.folder / "vllm/model_executor/layers/linear.py"
    linear.parent.mkdir(parents=True)
    for folder in (linear.parent, *list(linear.parents)[1:3]):
        (folder / "__init__.py").write_text("")
    before = "class ColumnParallelLinear:\n    def __init__(self, *a, **k):\n        self.x = 1\n"
    linear.write_text(before)
    repository.write(drafter=faulty)
    repository.commit()
    linear.write_text(before + "        self.params_dtype = k\n")
    rule = ("--select", "unguarded-combiner", "--config", 'rules = ["codemods"]')
    done = run("scan", "--diff-base", "HEAD", *rule, "--format", "json", cwd=repository.folder)
    found = json.loads(done.stdout)["findings"]
    assert [finding["path"] for finding in found] == ["drafter.py"]
    assert any(step["path"].endswith("linear.py") and step["line"] == 4 for step in found[0]["evidence"])
    repository.write(other="x = 1\n")
    linear.write_text(before)
    assert since(run, repository, "HEAD", *rule) == []


def test_it_works_from_a_folder_of_a_worktree_and_in_a_shallow_clone(
    run, repository: Repository, tmp_path: Path
) -> None:
    repository.write(a=ONE)
    first = repository.commit()
    repository.write(a=CLEAN + ONE)
    repository.commit()
    repository.git("worktree", "add", "-q", str(tmp_path / "tree"), "HEAD")
    (tmp_path / "tree/sub").mkdir()
    (tmp_path / "tree/sub/b.py").write_text(SAFE)
    assert since(run, repository, first, "..", cwd=tmp_path / "tree/sub") == ["b.py:2"]
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", repository.folder.as_uri(), tmp_path / "shallow"], check=True
    )
    done = run("scan", "--diff-base", first, cwd=tmp_path / "shallow")
    assert done.returncode == 2
    assert f"git fetch --depth=1 origin {first}" in done.stderr
    subprocess.run(["git", "fetch", "-q", "--depth=1", "origin", first], cwd=tmp_path / "shallow", check=True)
    (tmp_path / "shallow/c.py").write_text(SAFE)
    assert since(run, repository, first, cwd=tmp_path / "shallow") == ["c.py:2"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--diff-base", "nowhere"], "git knows no such revision"),
        (["--diff-base", "--all"], "git knows no such revision"),
        (["--diff-base", "HEAD", "--staged"], "choose one of --diff-base and --staged"),
        (["--staged", "--stdin-filename", "a.py", "-"], "--staged reads the files of a checkout"),
    ],
)
def test_a_bad_request_is_one_line(run, repository: Repository, arguments: list[str], says: str) -> None:
    repository.write(a=ONE)
    repository.commit()
    done = run("scan", *arguments, cwd=repository.folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_outside_a_checkout_there_is_nothing_to_compare(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(ONE)
    for option in (["--staged"], ["--diff-base", "HEAD"]):
        done = run("scan", "a.py", *option)
        assert done.returncode == 2
        assert "needs git and a checkout" in done.stderr


def test_staged_content_is_read_and_not_the_work_tree(run, repository: Repository) -> None:
    repository.write(a=ONE, b=CLEAN, c=CLEAN, d=CLEAN)
    repository.commit()
    repository.write(a=ONE + ONE, b=SAFE, c=SAFE, d=SAFE, untracked=SAFE)
    repository.git("add", "a.py", "b.py", "d.py")
    repository.write(a=CLEAN, b=CLEAN)
    (repository.folder / "d.py").unlink()
    done = run("scan", "--staged", "--format", "json", cwd=repository.folder)
    assert places(done) == ["a.py:2", "b.py:2", "d.py:2"]
    assert places(run("scan", "b.py", "--staged", "--format", "json", cwd=repository.folder)) == ["b.py:2"]
    repository.git("reset", "-q")
    assert run("scan", "--staged", cwd=repository.folder).returncode == 0


def test_an_emptied_file_is_empty_in_the_index(run, repository: Repository) -> None:
    repository.write(a=ONE)
    repository.commit()
    repository.write(a="")
    repository.git("add", "a.py")
    repository.write(a=ONE)
    assert run("scan", "--staged", cwd=repository.folder).returncode == 0


def test_the_first_commit_can_be_checked(run, repository: Repository) -> None:
    repository.write(a=SAFE)
    repository.git("add", "a.py")
    assert places(run("scan", "--staged", "--format", "json", cwd=repository.folder)) == ["a.py:2"]


def test_a_hook_sees_the_index_of_its_own_commit(
    run, repository: Repository, environment: dict[str, str]
) -> None:
    repository.write(a=CLEAN, b=CLEAN)
    repository.commit()
    hook = repository.folder / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nexec python -m dtypefix scan --staged >&2\n")
    hook.chmod(0o755)
    repository.write(a=SAFE, b=CLEAN + "# changed\n")
    path = os.pathsep.join([os.path.dirname(__import__("sys").executable), os.environ["PATH"]])
    env = {**environment, "PATH": path}
    committed = subprocess.run(
        ["git", "-c", "user.email=a@b.c", "-c", "user.name=a", "commit", "-q", "-m", "x", "b.py"],
        cwd=repository.folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert committed.returncode == 0, committed.stderr
    refused = subprocess.run(
        ["git", "-c", "user.email=a@b.c", "-c", "user.name=a", "commit", "-q", "-a", "-m", "x"],
        cwd=repository.folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert "a.py:2:12: warning demo-call" in refused.stderr


def test_a_persons_git_settings_change_nothing(run, repository: Repository) -> None:
    for name, value in {
        "color.ui": "always", "diff.noprefix": "true", "diff.external": "false", "diff.context": "9",
        "diff.interHunkContext": "50", "diff.mnemonicPrefix": "true", "core.quotePath": "true",
    }.items():  # fmt: skip
        repository.git("config", name, value)
    repository.write(a=ONE + CLEAN, ü=CLEAN)
    repository.commit()
    repository.write(a=ONE + CLEAN + ONE, ü=SAFE)
    assert since(run, repository, "HEAD") == ["a.py:4", "ü.py:2"]
