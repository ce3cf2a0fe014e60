"""``make soak``: chaos, simulated fleets, and failing servers and git remotes, for N minutes.

Each has at least one turn, and a turn that has begun is ended. ``python tests/soak.py --minutes N``
ends with 1 as soon as one of them finds something wrong, after
it has printed the command that shows it again.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parent
FLEETS = 200  # simulated ones at a time
SERVERS = [
    "tests/integration/test_postgres_failover.py",
    "tests/integration/test_postgres_settings.py",
    "tests/integration/postgres",
]
REMOTES = [
    "tests/integration/git/test_failing_remotes.py",
    "tests/acceptance/test_failing_git_remotes.py",
    "tests/acceptance/test_takeover_fleet.py",
]
LEVELS = "25"  # of the repository that is taken over: 300 names


def main() -> int:
    """Run them in turns; 1 where one of them found something wrong."""
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--minutes", type=float, default=60.0)
    minutes = parser.parse_args().minutes
    until = time.monotonic() + 60 * minutes
    turn = max(0.5, min(20.0, minutes / 3))
    while time.monotonic() < until:
        seed = random.randrange(10**6)
        faults = {"GIT_FAULT_SEED": f"{seed}", "GIT_FAULT_SECONDS": f"{random.uniform(1, 20):.1f}"}
        faults["TAKEOVER_LEVELS"] = LEVELS
        for words in (
            ["-m", "chaos.torment", "--minutes", f"{turn:g}", "--seed", f"{seed}"],
            ["-m", "simulation.simulate", "--seed", f"{seed}", "--runs", f"{FLEETS}"],
            ["-m", "pytest", "-q", *SERVERS],
            ["-m", "pytest", "-q", *REMOTES],
        ):
            command = [sys.executable, *words]
            left = max(0.0, until - time.monotonic()) / 60
            print(f"{left:.0f} min left:", shlex.join(words), flush=True)
            env = {**os.environ, "PYTHONPATH": str(TESTS), **faults}
            if subprocess.run(command, cwd=TESTS.parent, env=env).returncode != 0:
                setting = " ".join(f"{name}={value}" for name, value in faults.items())
                print(f"again: PYTHONPATH=tests {setting} python {shlex.join(words)}", flush=True)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
