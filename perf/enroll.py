"""100,000 cells expanded from a campaign and enrolled in a new ledger: time and memory."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

from measure import arguments, folder, interleaved, seconds, show

CAMPAIGN = """\
campaign: enroll
defaults: {repeats: 100}
matrix:
  models: [%s]
  configs: {%s}
  benchmarks: [%s]
"""
ONE = "{name: m%d, adapter: mock, model_kwargs: {answer: a%d}}"


def write(file: Path) -> None:
    """10 models × 10 configs × 10 lengths × 100 repeats."""
    models = ", ".join(ONE % (n, n) for n in range(10))
    configs = ", ".join(f"c{n}: {{attention: [{{local: {n + 1}}}]}}" for n in range(10))
    lengths = ", ".join(str(100 + n) for n in range(10))
    file.write_text(CAMPAIGN % (models, configs, f"{{recall: [{lengths}]}}"))


def once(work: Path) -> None:
    """In a process of its own: what expanding and enrolling take."""
    from benchfleet.campaign.load import load_campaign
    from benchfleet.ledger.sqlite.ledger import SqliteLedger

    begun = time.perf_counter()
    cells = load_campaign(work / "enroll.yaml").matrix.expand()
    expanded = time.perf_counter()
    ledger = SqliteLedger(work / "ledger.db", campaign="enroll")
    new = ledger.enroll(cells)
    enrolled = time.perf_counter()
    again = ledger.enroll(cells)
    ended = time.perf_counter()
    ledger.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(len(cells), new, again)
    print(expanded - begun, enrolled - expanded, ended - enrolled, peak)


def measured(work: Path) -> dict[str, float]:
    import subprocess

    for file in work.glob("ledger.db*"):
        file.unlink()
    done = subprocess.run(
        [sys.executable, __file__, "--once", str(work)], capture_output=True, text=True, check=True
    )
    counts, figures = done.stdout.splitlines()
    if counts != "100000 100000 0":
        raise SystemExit(f"expected 100,000 new cells, got {counts}")
    expand, enroll, again, peak = map(float, figures.split())
    return {
        "whole": expand + enroll,
        "expand": expand,
        "enroll": enroll,
        "again": again,
        "mb": peak / 1e6,
    }


def main() -> None:
    chosen = arguments(__doc__ or "", repeats=3)
    with folder(chosen) as work:
        write(work / "enroll.yaml")
        bare = {"whole": seconds([sys.executable, "-c", "pass"])}
        names = ("expand", "enroll", "again", "mb")
        figures = interleaved(
            {
                "python -c pass": lambda: {**dict.fromkeys(names, 0.0), **bare},
                "100,000 cells": lambda: measured(work),
            },
            chosen.repeats,
        )
    columns = {
        "expand": ("expand s", 1.0),
        "enroll": ("enroll s", 1.0),
        "whole": ("both s", 1.0),
        "again": ("enroll again s", 1.0),
        "mb": ("peak MB", 1.0),
    }
    show(figures, columns, against="python -c pass", by="whole", arguments=chosen)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        once(Path(sys.argv[2]))
    else:
        main()
