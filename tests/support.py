"""Small helpers that several folders of tests share."""

from __future__ import annotations

from pathlib import Path

from dtypefix.api import InputFile, Options, Roots, rewrite, scan
from dtypefix.edits.fix_file import FixedFile
from dtypefix.findings import FileResult

AMBIENT = """\
import torch
from vllm.config import get_current_vllm_config


class Method:
    def __init__(self):
        self.scratch = torch.zeros(1)
        self.out_dtype = torch.get_default_dtype()
        self.input_dtype = get_current_vllm_config().model_config.dtype
"""
"""A file with one warning, on line 8, that has a safe fix."""

AMBIENT_FIXED = AMBIENT.replace(
    "self.out_dtype = torch.get_default_dtype()",
    "self.out_dtype = get_current_vllm_config().model_config.dtype",
)


def scan_source(
    source: str | bytes, *rules: str, root: Path | None = None, name: str = "case.py"
) -> FileResult:
    """The result of one file that need not exist."""
    data = source.encode() if isinstance(source, str) else source
    root = root or Path("/nowhere")
    file = InputFile(name, root / name, data)
    (result,) = scan([file], Options(select=rules or ("ALL",)), Roots((root,), root))
    return result


def rewrite_source(source: str | bytes, *rules: str, unsafe: bool = False) -> FixedFile:
    """The result of fixing one file that need not exist."""
    data = source.encode() if isinstance(source, str) else source
    root = Path("/nowhere")
    file = InputFile("case.py", root / "case.py", data)
    options = Options(select=rules or ("ALL",), unsafe_fixes=unsafe)
    (result,) = rewrite([file], options, Roots((root,), root))
    return result
