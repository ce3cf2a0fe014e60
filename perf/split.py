"""How much sooner one large cell ends that is split over several slots.

Cells of the mock adapter, whose model takes `--load` ms to load and `--sample` ms for an answer, so
that slots only wait and four of them fit two cores:

* one cell of 400 samples on one slot, and split over two and four, by number and by ``auto``;
* a study of 200 cells whose largest is half of the work, on four slots, with and without splitting,
  beside the shortest time of any schedule: one load for each slot, and the answers shared out.

The time is that from the first claim to the last finish in the ledger, so that the starts of Python
and of slots do not count. Repetitions take turns.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from measure import BENCHFLEET, aim, arguments, folder, interleaved

from benchfleet.campaign.load import load_campaign
from benchfleet.study import open_study

SAMPLES = 400
CELLS = 200


def one_cell(split: object) -> dict[str, Any]:
    """A matrix of one large cell."""
    benchmark = {"mock_benchmark": {"rows": SAMPLES, "split": split}}
    return {"configs": {"dense": None}, "benchmarks": [benchmark]}


def uneven(split: object) -> dict[str, Any]:
    """A matrix of 199 small cells and one that is as large as all of them."""
    small, large = {"rows": 2}, {"subsets": 128, "samples": 2 * (CELLS - 1), "split": split}
    return {
        "configs": {"dense": None},
        "benchmarks": [{"recall": large}, {"mock_benchmark": small}],
        "include": [{"benchmarks": "mock_benchmark", "repeats": CELLS - 1}],
    }


def run(
    work: Path, chosen: argparse.Namespace, matrix: Mapping[str, Any], slots: int
) -> dict[str, float]:
    """Run a campaign of that matrix; seconds from the first claim to the last finish."""
    base = work / "run"
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir()
    kwargs = {"seconds": chosen.sample / 1000, "load_seconds": chosen.load / 1000}
    models = [{"name": "m", "adapter": "mock", "model_kwargs": kwargs}]
    campaign = {"campaign": "split", "matrix": {"models": models, **matrix}}
    file = base / "study.yaml"
    file.write_text(json.dumps(campaign))  # which is YAML too
    command = [*BENCHFLEET, "run", file.name, "--cpu-slots", f"{slots}"]
    subprocess.run(command, cwd=base, check=True, capture_output=True)
    ledger = open_study(load_campaign(file)).open_existing_ledger()
    assert ledger is not None
    events = ledger.events(kinds={"claimed", "finished"})
    ledger.close()
    return {"seconds": events[-1].at - events[0].at}


def main() -> None:
    numbers: dict[str, int | None] = {"load": 1000, "sample": 50}
    chosen = arguments(__doc__ or "", repeats=3, numbers=numbers)
    with folder(chosen) as work:
        measured = {
            name: partial(run, work, chosen, matrix, slots)
            for name, matrix, slots in (
                ("one slot", one_cell(1), 1),
                ("two slots, split: 2", one_cell(2), 2),
                ("two slots, split: auto", one_cell("auto"), 2),
                ("four slots, split: 4", one_cell(4), 4),
                ("uneven, not split", uneven(1), 4),
                ("uneven, split: auto", uneven("auto"), 4),
            )
        }
        times = {n: one["seconds"] for n, one in interleaved(measured, chosen.repeats).items()}
    one = times["one slot"]
    answers = 4 * (CELLS - 1) * chosen.sample / 1000
    ideal = chosen.load / 1000 + answers / 4
    for name, seconds in times.items():
        print(f"{name:24} {seconds:7.2f} s")
    print(f"{'uneven, ideal':24} {ideal:7.2f} s")
    aim("two slots, split: 2: x one slot", times["two slots, split: 2"] / one, 0.55)
    aim("four slots, split: 4: x one slot", times["four slots, split: 4"] / one, 0.30)
    aim("uneven study, split: auto: x the ideal", times["uneven, split: auto"] / ideal, 1.10)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps({**times, "ideal": ideal}, indent=2))


if __name__ == "__main__":
    main()
