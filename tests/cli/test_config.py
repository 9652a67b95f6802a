from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import PACK, SAFE

OTHER = """\
+++
summary = "A call of ambient"
group = "extra"
needles = ["ambient("]
+++

# other-call
"""


@pytest.fixture
def two_files(tmp_path: Path) -> Path:
    """``a.py`` and ``sub/b.py``, with one finding each."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.py").write_text(SAFE)
    (tmp_path / "sub/b.py").write_text(SAFE)
    return tmp_path


def paths(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode in (0, 1), done.stderr
    return [finding["path"] for finding in json.loads(done.stdout)["findings"]]


def scanned(run, *arguments: str, **options) -> list[str]:
    return paths(run("scan", ".", "--format", "json", *arguments, **options))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dtypefix.toml", 'ignore = ["ALL"]\n'),
        ("pyproject.toml", '[tool.dtypefix]\nper-file-ignores = { "*.py" = ["ALL"] }\n'),
    ],
)
def test_both_files_are_read_and_isolated_reads_none(run, two_files: Path, name: str, text: str) -> None:
    (two_files / name).write_text(text)
    if name == "dtypefix.toml":
        assert "no rule is left" in run("scan", ".").stderr
    else:
        assert scanned(run) == []
    assert scanned(run, "--isolated") == ["a.py", "sub/b.py"]


def test_a_pyproject_without_our_table_is_passed_over(run, two_files: Path) -> None:
    (two_files / "dtypefix.toml").write_text('per-file-ignores = { "b.py" = ["demo-call"] }\n')
    (two_files / "sub/pyproject.toml").write_text('[project]\nname = "dtypefix-user"\n')
    assert scanned(run) == ["a.py"]
    assert paths(run("scan", "b.py", "--format", "json", cwd=two_files / "sub")) == []


def test_the_nearest_file_governs_alone_unless_it_extends(run, two_files: Path) -> None:
    (two_files / "dtypefix.toml").write_text('per-file-ignores = { "*.py" = ["demo-call"] }\n')
    (two_files / "sub/dtypefix.toml").write_text("")
    assert scanned(run) == ["sub/b.py"]
    (two_files / "sub/dtypefix.toml").write_text('extend = "../dtypefix.toml"\n')
    assert scanned(run) == []


def test_extend_adds_up_the_extend_keys_and_replaces_the_others(run, two_files: Path) -> None:
    (two_files / "shared.toml").write_text('extend-exclude = ["a.py"]\nexclude = ["sub/"]\n')
    (two_files / "dtypefix.toml").write_text(
        'extend = "shared.toml"\nexclude = ["c.py"]\nextend-exclude = ["d.py"]\n'
    )
    (two_files / "c.py").write_text(SAFE)
    (two_files / "d.py").write_text(SAFE)
    assert scanned(run) == ["sub/b.py"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('selct = ["core"]', "unknown setting 'selct', did you mean 'select'?"),
        ('extend_select = ["core"]', "unknown setting 'extend_select', did you mean 'extend-select'?"),
        ('select = ["demo-cal"]', "select: unknown rule or group 'demo-cal', did you mean 'demo-call'?"),
        ('per-file-ignores = { "x" = ["nope"] }', "per-file-ignores: unknown rule or group 'nope'"),
        ('select = "core"', "select takes a list of rules and groups, for example select = "),
        ("unsafe-fixes = 1", "unsafe-fixes takes a true or false"),
        ('exclude = ["!"]', "exclude: '!' is no pattern as of a .gitignore"),
        ('per-file-ignores = { "!" = ["ALL"] }', "per-file-ignores: '' is no pattern"),
        ('per-file-ignores = ["tests/"]', "per-file-ignores takes a table of patterns"),
        ("exclude = [", "not valid TOML"),
        ('extend = "nowhere.toml"', "there is no file"),
        ('extend = "dtypefix.toml"', "extends itself"),
    ],
)
def test_a_faulty_setting_is_one_line_that_names_the_file(run, two_files: Path, text: str, says: str) -> None:
    (two_files / "dtypefix.toml").write_text(text)
    done = run("scan", ".")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert f"{two_files / 'dtypefix.toml'}: " in done.stderr
    assert says in done.stderr


def test_an_option_wins_over_a_setting(run, two_files: Path) -> None:
    (two_files / "dtypefix.toml").write_text('select = ["ignore-comment"]\n')
    assert scanned(run) == []
    assert scanned(run, "--select", "core") == ["a.py", "sub/b.py"]
    assert scanned(run, "--extend-select", "demo-call") == ["a.py", "sub/b.py"]
    (two_files / "dtypefix.toml").write_text('extend-select = ["ignore-comment"]\nignore = ["demo-call"]\n')
    assert scanned(run, "--extend-select", "demo-call") == ["a.py", "sub/b.py"]


def test_config_takes_a_setting_or_a_file(run, two_files: Path) -> None:
    (two_files / "dtypefix.toml").write_text('exclude = ["sub/"]\n')
    assert scanned(run, "--config", 'exclude = ["a.py"]') == ["sub/b.py"]
    assert scanned(run, "--config", 'extend-exclude=["a.py"]') == []
    (two_files / "other.toml").write_text('exclude = ["a.py"]\n')
    assert scanned(run, "--config", "other.toml") == ["sub/b.py"]
    assert scanned(run, "--config", "other.toml", "--config", "exclude = []") == ["a.py", "sub/b.py"]
    assert scanned(run, "--isolated", "--config", 'exclude = ["a.py"]') == ["sub/b.py"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--config", "nowhere.toml"], "no such file, and no 'key = value'"),
        (["--config", "select=core"], "a value is TOML"),
        (["--extend-exclude", "a,!"], "--extend-exclude: '!' is no pattern"),
        (["--config", "selct=['core']"], "did you mean 'select'?"),
        (["--config", "other.toml", "--isolated"], "which --isolated rules out"),
        (["--config", "other.toml", "--config", "other.toml"], "--config takes one file"),
    ],
)
def test_a_faulty_config_option_is_one_line(run, two_files: Path, arguments: list[str], says: str) -> None:
    (two_files / "other.toml").write_text("")
    done = run("scan", ".", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


def test_third_party_code_is_left_out_unless_it_is_asked_for(run, tmp_path: Path) -> None:
    vendored = tmp_path / "vllm/third_party/lib"
    vendored.mkdir(parents=True)
    (vendored / "a.py").write_text(SAFE)
    (tmp_path / "vllm/b.py").write_text(SAFE)
    assert scanned(run) == ["vllm/b.py"]
    assert scanned(run, "--config", "exclude = []") == ["vllm/b.py", "vllm/third_party/lib/a.py"]
    for named in ("vllm/third_party/lib/a.py", "vllm/third_party", "vllm/third_party/lib"):
        assert paths(run("scan", named, "--format", "json")) == ["vllm/third_party/lib/a.py"]
        assert paths(run("scan", named, "--force-exclude", "--format", "json")) == []


def test_an_excluded_text_on_standard_input_comes_back_as_it_was(run, tmp_path: Path) -> None:
    named = ("--stdin-filename", "third_party/a.py", "-")
    assert "settled" in run("rewrite", *named, input=SAFE).stdout
    done = run("rewrite", "--force-exclude", *named, input=SAFE)
    assert (done.returncode, done.stdout) == (0, SAFE)
    assert run("scan", "--force-exclude", *named, input=SAFE).returncode == 0


def test_patterns_are_those_of_gitignore_relative_to_their_file(run, two_files: Path) -> None:
    (two_files / "dtypefix.toml").write_text('exclude = ["/b.py", "*.py", "!a.py"]\n')
    assert scanned(run) == ["a.py"]
    (two_files / "dtypefix.toml").write_text('exclude = ["sub/*"]\n')
    assert scanned(run, cwd=two_files) == ["a.py"]
    assert paths(run("scan", "..", "--format", "json", cwd=two_files / "sub")) == ["../a.py"]
    assert scanned(run, "--extend-exclude", "nothing,a.py") == []


def test_rules_are_turned_off_for_some_files_or_for_all_but_some(run, two_files: Path) -> None:
    (two_files / "dtypefix.toml").write_text('per-file-ignores = { "sub/" = ["core"] }\n')
    assert scanned(run) == ["a.py"]
    (two_files / "dtypefix.toml").write_text('per-file-ignores = { "!sub/" = ["demo-call"] }\n')
    assert scanned(run) == ["sub/b.py"]
    suppressed = "x = 1  # dtypefix: ignore[demo-call] off in this file anyway\n"
    (two_files / "a.py").write_text(suppressed)
    assert scanned(run) == ["sub/b.py"]


def test_what_git_ignores_can_be_read_on_request(run, two_files: Path) -> None:
    subprocess.run(["git", "init", "-q", two_files], check=True)
    (two_files / ".gitignore").write_text("sub/\n")
    assert scanned(run) == ["a.py"]
    assert scanned(run, "--config", "respect-gitignore = false") == ["a.py", "sub/b.py"]


def test_unsafe_fixes_can_be_a_setting(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('x = ambient("error", "unsafe")\n')
    (tmp_path / "dtypefix.toml").write_text("unsafe-fixes = true\n")
    assert run("rewrite", "a.py", "--no-unsafe-fixes").returncode == 1
    assert run("rewrite", "a.py").returncode == 0
    assert (tmp_path / "a.py").read_text() == "x = settled\n"


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A rule pack in the scanned tree, whose import leaves a trace."""
    folder = tmp_path / "lint/other_rules"
    folder.mkdir(parents=True)
    text = (PACK / "demo_rules/demo_call.py").read_text().replace("class DemoCall", "class OtherCall")
    trace = f"open({str(tmp_path / 'imported')!r}, 'w').close()\n"
    (folder / "other_call.py").write_text(f"{text}\n{trace}")
    (folder / "other_call.md").write_text(OTHER)
    (tmp_path / "a.py").write_text(SAFE)
    return folder


def test_a_scanned_tree_cannot_name_code_to_run(run, tmp_path: Path, pack: Path) -> None:
    config = tmp_path / "dtypefix.toml"
    config.write_text('rules = ["./lint/other_rules"]\n')
    done = run("scan", "a.py", "--select", "ALL")
    assert "a.py:2:12: warning demo-call" in done.stdout
    assert "other-call" not in done.stdout
    assert f"not honoured in a scanned tree; if you trust it, pass --config {config}" in done.stderr
    assert not (tmp_path / "imported").exists()
    trusted = run("scan", "a.py", "--select", "ALL", "--config", "dtypefix.toml")
    assert "a.py:2:12: warning other-call" in trusted.stdout
    assert trusted.stderr == ""
    assert (tmp_path / "imported").exists()


def test_a_persons_own_configuration_may_name_packs_and_is_a_fallback(
    run, tmp_path: Path, pack: Path
) -> None:
    own = tmp_path / "home/dtypefix"
    own.mkdir(parents=True)
    (own / "dtypefix.toml").write_text(f'rules = ["{pack}"]\nextend-select = ["extra"]\nexclude = ["a.py"]\n')
    env = {"XDG_CONFIG_HOME": str(tmp_path / "home")}
    assert scanned(run, env=env) == ["lint/other_rules/other_call.py"] * 0
    assert "other-call" in run("scan", "a.py", env=env).stdout
    (tmp_path / "pyproject.toml").write_text("[tool.dtypefix]\n")
    done = run("scan", ".", "--select", "ALL", env=env)
    assert "a.py:2:12: warning other-call" in done.stdout
    assert "other-call" not in run("scan", "a.py", "--select", "ALL", "--isolated", env=env).stdout


def test_a_pack_that_is_not_there_is_said(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    done = run("scan", "a.py", "--config", 'rules = ["./nowhere"]')
    assert done.returncode == 2
    assert f"rule pack {tmp_path / 'nowhere'}" in done.stderr
    assert "no such package" in run("scan", "a.py", "--config", 'rules = ["no_such_pack"]').stderr


def test_settings_are_shown_with_where_they_come_from(run, tmp_path: Path) -> None:
    (tmp_path / "dtypefix.toml").write_text('select = ["ALL"]\nbaseline = "known.json"\n')
    shown = run("scan", "--show-settings", "--config", "unsafe-fixes = true").stdout.splitlines()
    assert f'select = ["ALL"]  # {tmp_path / "dtypefix.toml"}' in shown
    assert f'baseline = "{tmp_path / "known.json"}"  # {tmp_path / "dtypefix.toml"}' in shown
    assert "unsafe-fixes = true  # --config unsafe-fixes = true" in shown
    assert 'exclude = ["third_party"]  # default' in shown
    assert "# vllm-root is not set" in shown


def test_files_are_shown_and_none_is_read(run, two_files: Path) -> None:
    (two_files / "a.py").write_text("def f(:\n")
    done = run("scan", ".", "--show-files", "--extend-exclude", "sub")
    assert (done.returncode, done.stdout, done.stderr) == (0, "a.py\n", "")


def test_a_release_is_not_governed_by_the_project_around(run, tmp_path: Path) -> None:
    package = tmp_path / "cache/vllm-0.0.7/vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(SAFE)
    (tmp_path / "dtypefix.toml").write_text('exclude = ["__init__.py"]\nextend-select = ["nonsense"]\n')
    env = {"DTYPEFIX_SOURCES": str(tmp_path / "cache")}
    assert paths(run("scan", "vllm==0.0.7", "--format", "json", env=env)) == ["vllm/__init__.py"]
    done = run("scan", "vllm==0.0.7", "--format", "json", "--config", 'exclude=["__init__.py"]', env=env)
    assert paths(done) == []


def test_the_vllm_root_can_be_a_setting(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    (tmp_path / "dtypefix.toml").write_text('vllm-root = "nowhere"\n')
    done = run("scan", "a.py")
    assert done.returncode == 2
    assert f"--vllm-root {tmp_path / 'nowhere'}: no such directory" in done.stderr


def test_knowledge_is_laid_over_the_packs_tables(run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SAFE)
    (tmp_path / "table.toml").write_text("[[layer]]\nname = 'OurLinear'\n")
    assert run("scan", "a.py", "--config", 'knowledge = ["table.toml"]').returncode == 1
    done = run("scan", "a.py", "--config", 'knowledge = ["nowhere.toml"]')
    assert done.returncode == 2
    assert f"knowledge: there is no {tmp_path / 'nowhere.toml'}" in done.stderr


def test_the_reference_page_is_what_the_code_declares() -> None:
    from dtypefix.config.reference import page

    assert (Path(__file__).parents[2] / "docs/configuration.md").read_text() == page()
