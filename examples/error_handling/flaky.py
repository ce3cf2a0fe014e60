"""Fails in the ways that scripts fail, by its subset. The first attempt of `temporary` fails."""

import json
import sys
from pathlib import Path

kind = sys.argv[1]
if kind == "temporary":
    marker = Path("seen-once")
    if not marker.exists():
        marker.touch()
        sys.exit(75)  # EX_TEMPFAIL: try again
if kind == "mistake" and not Path("repaired").exists():
    raise SystemExit("the data file is missing")
print(json.dumps({"accuracy": 0.5}))
