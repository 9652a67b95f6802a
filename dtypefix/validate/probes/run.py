"""Entry of every probe process: ``python run.py PROBE REQUEST.json``.

The folder of this file must not stay on ``sys.path``: its module names would hide the standard
library's, and the interpreter belongs to a vLLM runtime that does not have this package installed.
"""

import ctypes
import importlib
import importlib.util
import os
import signal
import sys
from pathlib import Path

NAME = "dtypefix_probes"


def main() -> None:
    """Load this folder as a package of its own and run the named probe."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    if sys.platform.startswith("linux"):
        # 1 is PR_SET_PDEATHSIG: a probe must not outlive the run that started it.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    spec = importlib.util.spec_from_file_location(
        NAME, here / "__init__.py", submodule_search_locations=[str(here)]
    )
    if spec is None or spec.loader is None:
        raise SystemExit("the probes' folder cannot be loaded")
    package = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = package
    spec.loader.exec_module(package)
    module = importlib.import_module(f"{NAME}.{sys.argv[1]}")
    module.main(sys.argv[2])
    sys.stdout.flush()
    sys.stderr.flush()
    # vLLM leaves threads and process groups behind that can hang an orderly exit.
    os._exit(0)


main()
