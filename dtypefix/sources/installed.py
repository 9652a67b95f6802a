"""The vLLM that a Python interpreter would import, found without importing it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from dtypefix.errors import UserError
from dtypefix.sources.listing import python_files
from dtypefix.sources.target import Target, printable

# find_spec of a top-level name runs finders, never the package. The current folder is no place to look.
PROBE = """
import importlib.util, json, sys
sys.path[:] = [entry for entry in sys.path if entry]
spec = importlib.util.find_spec("vllm")
places = [] if spec is None else list(spec.submodule_search_locations or [])
print("\\n" + json.dumps({"places": places, "python": ".".join(map(str, sys.version_info[:3]))}))
"""


def installed_target(python: str | None = None) -> Target:
    """The Python files of the vLLM that ``python`` (default: the one on PATH) would import.

    Raises:
        UserError: there is no such interpreter, it does not run, or it finds no vLLM.
    """
    interpreter = _interpreter(python)
    package = _vllm_of(interpreter)
    # A checkout's listing would leave out a package that git ignores, and an installed one mostly is.
    files = tuple(python_files(package))
    if not files:
        raise UserError(f"--installed: no Python files in {printable(str(package))}")
    return Target("installed", f"vllm of {printable(interpreter)}", package.parent, files, (package.parent,))


def _interpreter(python: str | None) -> str:
    if python is None:
        found = shutil.which("python3") or shutil.which("python")
        if found is None:
            raise UserError(
                "--installed: no python3 or python on PATH; name the interpreter with --python PATH"
            )
        return found
    if os.path.isdir(python):  # a virtual environment
        inside = [Path(python, "bin", "python"), Path(python, "Scripts", "python.exe")]
        python = next((str(path) for path in inside if os.path.exists(path)), python)
    found = shutil.which(python)
    if found is None:
        raise UserError(f"--python {printable(python)}: no such interpreter")
    return os.path.abspath(found)


def _vllm_of(interpreter: str) -> Path:
    with tempfile.TemporaryDirectory() as elsewhere:
        try:
            done = subprocess.run(
                [interpreter, "-c", PROBE],
                cwd=elsewhere,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UserError(f"--python {printable(interpreter)}: does not run: {error}") from None
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
        places = [Path(place) for place in answer["places"]]
    except (LookupError, ValueError, TypeError):
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise UserError(
            f"--python {printable(interpreter)}: is no Python 3 that can be asked: {why}"
        ) from None
    # A folder that merely bears the name is a namespace package; vLLM has an __init__.py.
    found = next((place for place in places if os.path.isfile(place / "__init__.py")), None)
    if found is None:
        raise UserError(
            f"--installed: {printable(interpreter)} (Python {answer['python']}) finds no vllm; "
            "name the interpreter that has it with --python PATH"
        )
    return found
