"""``dtypefix lsp``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dtypefix.cli._options import RuleOptions, TargetOptions, rule_options
from dtypefix.errors import UserError

if TYPE_CHECKING:
    from dtypefix.lsp.server import Examination


@click.command("lsp", epilog="Exit status: 0 when the editor ends it, 2 if it cannot start.")
@click.option("--vllm-root", metavar="PATH|vllm==X", help="Where a plug-in's base classes come from.")
@rule_options
def command(vllm_root: str | None, **options: Any) -> int:
    """Serve an editor on standard input and output.

    It shows findings while you type, offers their fixes, and explains the rule where the pointer rests.
    """
    try:
        from dtypefix.lsp.server import make_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise UserError("the editor server needs pygls: pip install 'dtypefix[lsp]'") from None

    examiner = _Examiner(RuleOptions(**{**options, "force_exclude": True}), vllm_root)
    make_server(examiner.examine, examiner.page_of).start_io()
    return 0


class _Examiner:
    """Examines a document as ``scan`` would examine the file, by the configuration above it."""

    def __init__(self, rules: RuleOptions, vllm_root: str | None) -> None:
        self._rules = rules
        self._vllm_root = vllm_root
        self._pages: dict[str, str] = {}

    def examine(self, path: Path, data: bytes) -> Examination:
        """The findings in a file whose text is ``data``."""
        from dtypefix.api import scan
        from dtypefix.cli import _plan, _run
        from dtypefix.lsp.server import Examination

        where = TargetOptions((str(path),), False, None, None, self._vllm_root)
        plan = _plan.make(where, self._rules)
        self._pages = {rule.name: rule.page for rule in _run.rule_docs(plan.options)}
        files = [replace(file, source=data, named=False) for file in plan.files]
        findings = [f for result in scan(files, plan.options, plan.roots) for f in result.findings]
        return Examination(tuple(findings), plan.target.root)

    def page_of(self, rule: str) -> str:
        """The page of a rule that found something."""
        return self._pages.get(rule, "")
