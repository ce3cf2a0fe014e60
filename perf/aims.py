"""Every aim of docs/performance.md, measured now and printed as one table.

It takes about half an hour, ten minutes with ``--quick``. Peers that are not installed leave their
rows out: GNU parallel, Snakemake, pgqueuer with asyncpg.
"""

from __future__ import annotations

import argparse
import compileall
import os
import subprocess
import sys
from pathlib import Path

PERF = Path(__file__).parent
SCRIPTS = (  # with what a quick look asks of each
    ("overhead.py", ("--repeats", "2")),
    ("rerun.py", ("--repeats", "1")),
    ("light.py", ("--repeats", "5")),
    ("ledger.py", ("--repeats", "1", "--large", "100000")),
    ("git.py", ("--repeats", "1", "--alone", "0", "--seconds", "5")),
    ("scale.py", ("--slots", "10000", "--cells", "100000", "--run", "5000")),
    ("assign.py", ("--families", "labs", "--cells", "10,50")),
    ("makespan.py", ("--part", "small", "--slots", "2", "--repeats", "1", "--fresh", "0")),
)
WHOLE = {
    "scale.py": ("--slots", "10000", "--cells", "1000000", "--run", "15000"),
    "assign.py": ("--families", "labs", "--cells", "10,50,200"),
    "git.py": ("--repeats", "1", "--alone", "0"),
    "makespan.py": ("--repeats", "1", "--fresh", "0"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="some of the scripts, by a part of their name")
    parser.add_argument("--work", metavar="DIR", help="where to work; a disk, to count its fsync")
    chosen = parser.parse_args()
    compileall.compile_dir(PERF.parent / "src", quiet=1)  # as pip does: a start compiles nothing
    print("| what | today | aim | |\n|---|---|---|---|")
    for script, quick in SCRIPTS:
        if chosen.only not in script:
            continue
        words = [*(quick if chosen.quick else WHOLE.get(script, ()))]
        words += ["--work", chosen.work] if chosen.work and script != "assign.py" else []
        done = subprocess.run(
            [sys.executable, PERF / script, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(PERF.parent / "tests")},
        )
        rows = [line for line in done.stdout.splitlines() if line.startswith("aim | ")]
        for row in rows:
            print(f"{row.removeprefix('aim ')} |", flush=True)
        if done.returncode != 0 or not rows:
            print(f"| {script} ended with {done.returncode}, without figures | | | |", flush=True)


if __name__ == "__main__":
    main()
