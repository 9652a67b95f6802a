"""A rule as a LibCST codemod command, for ``python -m libcst.tool codemod``."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import ClassVar

import libcst as cst
from libcst.codemod import CodemodCommand, CodemodContext

from dtypefix.analysis.project import Project
from dtypefix.edits.fix_file import fix_file
from dtypefix.engine.catalog import load_catalog, load_knowledge
from dtypefix.engine.examine import examine
from dtypefix.sources.lookup import FileLookup, module_name


class RuleCommand(CodemodCommand):
    """Applies the fixes of one rule to a module.

    A subclass names the rule in ``RULE``. Bases in other files are looked up from the file's own
    package, and under ``--vllm-root`` where that is given.
    """

    RULE: ClassVar[str] = ""

    @staticmethod
    def add_args(parser: argparse.ArgumentParser) -> None:
        """Add the options of ``libcst.tool codemod`` that every rule has."""
        # LibCST would pipe each changed file whole through black; a fix touches its own bytes only.
        parser.set_defaults(no_format=True)
        parser.add_argument("--unsafe-fixes", action="store_true", help="apply unsafe fixes as well")
        parser.add_argument("--vllm-root", type=Path, help="folder that holds the vllm package")

    def __init__(
        self, context: CodemodContext, unsafe_fixes: bool = False, vllm_root: Path | None = None
    ) -> None:
        super().__init__(context)
        self.applicable = {"safe", "unsafe"} if unsafe_fixes else {"safe"}
        self.vllm_root = vllm_root

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        """The module with the rule's fixes applied; remaining findings are given as warnings."""
        path = Path(self.context.filename or "<string>").absolute()
        roots = [root for root in (_package_root(path), self.vllm_root) if root is not None]
        name, is_package = module_name(path, roots)
        rule = load_catalog().get(self.RULE)
        project = Project(FileLookup(roots, Path.cwd(), [path]), partial(load_knowledge, [rule]))
        fixed = fix_file(
            str(path),
            tree.bytes,
            lambda source: examine(str(path), source, [rule], project, name=name, is_package=is_package),
            self.applicable,
        )
        for finding in fixed.remaining.findings:
            if finding.counts:
                why = finding.unfixed_reason or "the fix is unsafe: see --unsafe-fixes"
                self.warn(f"line {finding.span.line}: {finding.message} ({why})")
        if fixed.problem is not None:
            self.warn(fixed.problem.reason)
        return tree if fixed.after == fixed.before else cst.parse_module(fixed.after)


def _package_root(path: Path) -> Path | None:
    name, is_package = module_name(path, ())
    if not name:
        return path.parent
    return path.parents[name.count(".") + is_package]
