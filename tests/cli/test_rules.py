from __future__ import annotations

import json


def test_the_list_names_each_rule_with_group_fix_and_summary(run) -> None:
    done = run("rules")
    assert done.returncode == 0
    row = next(line for line in done.stdout.splitlines() if line.startswith("demo-call "))
    assert row.split()[:3] == ["demo-call", "core", "safe/unsafe/manual"]
    assert row.endswith("A call of ambient(level, fix)")


def test_the_list_as_json(run) -> None:
    rules = json.loads(run("rules", "--format", "json").stdout)
    demo = next(rule for rule in rules if rule["name"] == "demo-call")
    assert demo == {
        "name": "demo-call",
        "group": "core",
        "default": True,
        "fix": ["safe", "unsafe", "manual"],
        "summary": "A call of ambient(level, fix)",
    }


def test_explain_prints_the_page_as_it_is_in_a_pipe(run) -> None:
    done = run("explain", "demo-call")
    assert done.returncode == 0
    assert done.stdout == "# demo-call\n\n## What it finds\n\nEvery call of `ambient`.\n"


def test_explain_renders_the_page_on_a_terminal(run) -> None:
    shown = run("explain", "demo-call", env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b[" in shown
    assert "##" not in shown


def test_the_engines_own_rule_is_listed_and_explained(run) -> None:
    assert any(line.startswith("ignore-comment ") for line in run("rules").stdout.splitlines())
    page = run("explain", "ignore-comment").stdout
    assert page.startswith("# ignore-comment\n")
    assert "# dtypefix: file-ignore[" in page


def test_packs_of_ones_own_are_listed_and_explained(run) -> None:
    given = ("--config", 'rules = ["codemods"]')
    assert "unguarded-combiner " in run("rules", *given).stdout
    assert run("explain", "unguarded-combiner", *given).stdout.startswith("# unguarded-combiner\n")


def test_explain_suggests_the_nearest_rule(run) -> None:
    done = run("explain", "demo-cal")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "did you mean 'demo-call'" in done.stderr


def test_an_unknown_command_is_one_line(run) -> None:
    done = run("scn")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "No such command 'scn'" in done.stderr
