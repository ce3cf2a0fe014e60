"""``python -m benchfleet``: the command line of this interpreter's benchfleet."""

from __future__ import annotations

import sys

from benchfleet.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
