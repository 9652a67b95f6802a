from __future__ import annotations

import subprocess
import sys

import pytest

from ..support import AMBIENT, scan_source

RULE = "ambient-out-dtype"


def test_a_finding_says_where_it_stands_in_code_points_and_bytes() -> None:
    source = AMBIENT.replace("        self.out_dtype", '        "äöü"; self.out_dtype')
    (finding,) = scan_source(source, RULE).findings
    span = finding.span
    assert (span.line, span.column, span.end_line, span.end_column) == (8, 33, 8, 58)
    assert source.encode()[span.start_byte : span.end_byte] == b"torch.get_default_dtype()"
    assert finding.symbol == "Method.__init__"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda s: b"\xef\xbb\xbf" + s.encode(), id="byte order mark"),
        pytest.param(lambda s: s.replace("\n", "\r\n").encode(), id="CRLF"),
        pytest.param(lambda s: ("# coding: latin-1\n# \xe9\n" + s).encode("latin-1"), id="latin-1 cookie"),
        pytest.param(lambda s: s.replace("class", "\f\nclass").encode(), id="form feed"),
        pytest.param(lambda s: s.replace("    ", "\t").encode(), id="tabs"),
        pytest.param(lambda s: s.rstrip("\n").encode(), id="no final newline"),
    ],
)
def test_the_span_is_right_in_files_that_are_laid_out_otherwise(change) -> None:
    source = change(AMBIENT)
    (finding,) = scan_source(source, RULE).findings
    assert source[finding.span.start_byte : finding.span.end_byte] == b"torch.get_default_dtype()"
    line = source.splitlines()[finding.span.line - 1]
    assert b"self.out_dtype" in line


def test_a_fingerprint_survives_moved_lines_and_tells_equal_code_apart() -> None:
    twice = AMBIENT + AMBIENT.splitlines()[7] + "\n"
    first = scan_source(AMBIENT, RULE).findings
    moved = scan_source("# a line\n\n" + AMBIENT, RULE).findings
    both = scan_source(twice, RULE).findings
    assert [f.fingerprint for f in first] == [f.fingerprint for f in moved]
    assert len({f.fingerprint for f in both}) == 2
    assert both[0].fingerprint == first[0].fingerprint


def test_a_file_with_a_syntax_error_is_skipped_with_its_line() -> None:
    result = scan_source(AMBIENT + "def broken(:\n", RULE)
    assert result.skipped is not None
    assert "line 10" in result.skipped.reason
    assert not result.findings


def test_undecodable_bytes_are_a_reason_to_skip_not_to_crash() -> None:
    result = scan_source(AMBIENT.encode() + b"# \xff\xfe\n", RULE)
    assert result.skipped is not None


def test_deep_nesting_is_read() -> None:
    chain = "x = " + " + ".join(["1"] * 900)
    result = scan_source(AMBIENT + "        " + chain + "\n", RULE)
    assert len(result.findings) == 1


def test_a_match_in_a_nested_function_and_a_decorated_method_is_found() -> None:
    source = """\
import torch


class A:
    @property
    @torch.no_grad()
    def forward(self):
        def inner():
            out_dtype = torch.get_default_dtype()
            return out_dtype

        return inner()
"""
    (finding,) = scan_source(source, RULE).findings
    assert finding.symbol == "A.forward.inner"
    assert finding.span.line == 9


def test_files_without_a_candidate_do_not_import_libcst() -> None:
    code = (
        "import sys; from tests.support import scan_source;"
        "result = scan_source('import os\\nx = os.name\\n');"
        "assert not result.findings; sys.exit('libcst' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    "body",
    [
        "        if flag: self.out_dtype = torch.get_default_dtype()\n",
        "        x = 1; self.out_dtype = torch.get_default_dtype()\n",
        "        if flag:\n            pass\n"
        "        elif self.f(out_dtype=torch.get_default_dtype()):\n            pass\n",
        "        try:\n            pass\n        finally:\n"
        "            self.out_dtype = (  # why\n                torch.get_default_dtype()\n            )\n",
        "        with self.f(out_dtype=torch.get_default_dtype()):\n            return 1\n",
    ],
)
def test_a_match_is_found_in_whatever_statement_it_stands(body: str) -> None:
    source = "import torch\n\n\nclass A:\n    def forward(self, flag):\n" + body
    (finding,) = scan_source(source, RULE).findings
    data = source.encode()
    assert data[finding.span.start_byte : finding.span.end_byte] == b"torch.get_default_dtype()"


def test_a_rule_sees_the_same_whatever_other_rules_run() -> None:
    source = AMBIENT + "\n    def combine_hidden_states(self, x):\n        return self.fc(x)\n"
    alone = [*scan_source(source, RULE).findings, *scan_source(source, "unguarded-combiner").findings]
    together = scan_source(source, RULE, "unguarded-combiner").findings
    assert list(together) == alone
