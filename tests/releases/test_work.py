"""How much work a scan does: counted, so that it is the same on every machine."""

from __future__ import annotations

import pytest

from dtypefix.api import Execution, InputFile, Options, Roots, scan
from dtypefix.engine.profile import Profile
from dtypefix.sources.releases import package_folder, parse_release, release_root

# A change that needs more work than this raises the number here, and says in its commit what it buys.
SEEDS = "unguarded-combiner,ambient-out-dtype"
BUDGETS = {
    ("vllm==0.20.2", "ALL"): {"files parsed": 1_300, "lines in units": 50_000, "nodes": 800_000},
    ("vllm==0.20.2", SEEDS): {"files parsed": 80, "lines in units": 1_700, "nodes": 26_500},
    ("vllm-ascend==0.23.0", "ALL"): {"files parsed": 370, "lines in units": 18_500, "nodes": 340_000},
}


@pytest.mark.parametrize(("requirement", "rules"), BUDGETS)
def test_the_work_stays_within_its_budget(requirement: str, rules: str) -> None:
    release, _ = parse_release(requirement)
    root = release_root(release)
    files = [
        InputFile(path.relative_to(root).as_posix(), path)
        for path in sorted((root / package_folder(release)).rglob("*.py"))
    ]
    profile = Profile()
    options = Options(select=tuple(rules.split(",")))
    for _ in scan(files, options, Roots((root,), root), Execution(profile=profile)):
        pass
    done = {name: profile.counts[name] for name in BUDGETS[requirement, rules]}
    assert all(done[name] <= most for name, most in BUDGETS[requirement, rules].items()), done
