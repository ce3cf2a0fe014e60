"""``make soak``: chaos, simulated fleets, random orders of a ledger's calls, properties, failing
servers and git remotes, cells killed at random moments, and packages that need environments of
their own (`own_environments.py`), for N minutes.

Each has at least one turn, and a turn that has begun is ended. ``python tests/soak.py --minutes N``
ends with 1 as soon as one of them finds something wrong, after
it has printed the command that shows it again.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shlex
import subprocess
import sys
import time
from pathlib import Path

from ray_clusters import LOST_CALLS

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
LONGEST_FAULT = 5.0  # seconds of a git remote's fault, for each minute of the soak: hours in a day
KILLED = ["tests/integration/slots/test_killed_cells.py"]
RAY = ["tests/acceptance/test_ray.py"]
OWN_ENVIRONMENTS = Path(sys.prefix) / "own"  # below benchfleet's: 4 GB, made in the first turn
LEDGERS = ["--timeout", "3600", "tests/contract/test_ledger_machine.py"]
LEDGER_TIMES = "40"  # as many random orders of calls as in `make test`
PROPERTIES = ["-m", "hypothesis", "tests/unit", "tests/integration"]
EXAMPLES = "1000"  # of each property, instead of 50
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
        outage = math.exp(random.uniform(0.0, math.log(max(20.0, LONGEST_FAULT * minutes))))
        faults = {"GIT_FAULT_SEED": f"{seed}", "GIT_FAULT_SECONDS": f"{outage:.1f}"}
        faults["KILL_SEED"] = f"{seed}"
        faults["TAKEOVER_LEVELS"] = LEVELS
        faults["LEDGER_TIMES"] = LEDGER_TIMES
        faults["PROPERTY_EXAMPLES"] = EXAMPLES
        faults |= LOST_CALLS
        for words in (
            ["-m", "chaos.torment", "--minutes", f"{turn:g}", "--seed", f"{seed}"],
            ["-m", "simulation.simulate", "--seed", f"{seed}", "--runs", f"{FLEETS}"],
            ["-m", "pytest", "-q", *LEDGERS],
            ["-m", "pytest", "-q", *PROPERTIES],
            ["-m", "pytest", "-q", *SERVERS],
            ["-m", "pytest", "-q", *REMOTES],
            ["-m", "pytest", "-q", *KILLED],
            ["-m", "pytest", "-q", *RAY],
            ["-m", "own_environments", str(OWN_ENVIRONMENTS)],
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
