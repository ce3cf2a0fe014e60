"""A run that finds 5,000 cells done, beside peers that find as many."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from measure import (
    BENCHFLEET,
    aim,
    arguments,
    folder,
    interleaved,
    missing,
    seconds,
    show,
    whole_seconds,
)
from overhead import CAMPAIGN, SNAKEFILE

CELLS = 5000
HEAD = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"
BODY = "echo {} > out/.t{} && mv out/.t{} out/{}.json"


def finished_by_a_peer(work: Path) -> None:
    """What Snakemake and GNU parallel look at to see that a cell is done."""
    (work / "out").mkdir(parents=True)
    (work / "Snakefile").write_text(SNAKEFILE)
    log = [HEAD]
    for cell in range(CELLS):
        (work / "out" / f"{cell}.json").write_text(str(cell))
        body = BODY.replace("{}", str(cell))
        log.append(f"{cell + 1}\t:\t1700000000.000\t     0.003\t0\t0\t0\t0\t{body}\n")
    (work / "log").write_text("".join(log))


def main() -> None:
    chosen = arguments(__doc__ or "", repeats=3)
    with folder(chosen) as work:
        (work / "rerun.yaml").write_text(CAMPAIGN.replace("CELLS", str(CELLS)))
        seconds([*BENCHFLEET, "run", "rerun.yaml", "--json"], cwd=work)
        peers = work / "peers"
        finished_by_a_peer(peers)
        commands = {
            "python -c pass": ([sys.executable, "-c", "pass"], work),
            "benchfleet run": ([*BENCHFLEET, "run", "rerun.yaml"], work),
            "benchfleet status": ([*BENCHFLEET, "status", "rerun.yaml"], work),
        }
        if not missing("parallel"):
            line = f"seq 0 {CELLS - 1} | parallel --will-cite -j2 --joblog log --resume '{BODY}'"
            commands["GNU parallel"] = (["bash", "-c", line], peers)
        if not missing("snakemake"):
            words = f"snakemake -c2 -q all --nocolor --config cells={CELLS}".split()
            commands["Snakemake"] = (words, peers)
        figures = interleaved(
            {
                name: partial(whole_seconds, command, cwd=cwd)
                for name, (command, cwd) in commands.items()
            },
            chosen.repeats,
        )
    columns = {"whole": ("s", 1.0)}
    show(figures, columns, against="benchfleet run", by="whole", arguments=chosen)
    if "Snakemake" in figures:
        quicker = figures["Snakemake"]["whole"] / figures["benchfleet run"]["whole"]
        aim(
            f"{CELLS:,} finished cells run again: times as quick as Snakemake",
            quicker,
            8,
            least=True,
        )


if __name__ == "__main__":
    main()
