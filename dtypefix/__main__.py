"""``python -m dtypefix``."""

import sys

from dtypefix.cli import main

if __name__ == "__main__":
    sys.exit(main())
