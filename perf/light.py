"""What looking costs: --help, status, and a run with nothing left, beside ``python -c pass``."""

from __future__ import annotations

import sys
from functools import partial

from measure import BENCHFLEET, aim, arguments, folder, interleaved, seconds, show, whole_seconds

CAMPAIGN = """\
campaign: light
cpu_slots: 2
defaults: {repeats: 20}
matrix:
  models: [{name: m, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{mock_benchmark: {rows: 1}}]
"""


def main() -> None:
    chosen = arguments(__doc__ or "", repeats=15)
    with folder(chosen) as work:
        (work / "light.yaml").write_text(CAMPAIGN)
        seconds([*BENCHFLEET, "run", "light.yaml", "--json"], cwd=work)
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "benchfleet --help": [*BENCHFLEET, "--help"],
            "benchfleet run --help": [*BENCHFLEET, "run", "--help"],
            "benchfleet status": [*BENCHFLEET, "status", "light.yaml"],
            "benchfleet run, nothing left": [*BENCHFLEET, "run", "light.yaml"],
        }
        figures = interleaved(
            {name: partial(whole_seconds, command, cwd=work) for name, command in commands.items()},
            chosen.repeats,
        )
    columns = {"whole": ("ms", 1e3)}
    show(figures, columns, against="python -c pass", by="whole", arguments=chosen)
    for name, row in figures.items():
        if name != "python -c pass":
            aim(
                f"`{name}`: x python -c pass", row["whole"] / figures["python -c pass"]["whole"], 15
            )


if __name__ == "__main__":
    main()
