"""Runs simulated fleets of one seed after the other, and tells what must hold and does not.

``python -m simulation.simulate --seed N --hosts H --cells C --runs K``: see
docs/reliability.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from simulation.faults import FAULTS
from simulation.simulated import Account, SimulatedFleet

_IN_MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def in_memory() -> Iterator[Path]:
    """A folder where syncing costs nothing, if there is such a place; it is gone afterwards."""
    place = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="benchfleet-simulated-", dir=place) as folder:
        yield Path(folder)


Fleet = Callable[..., SimulatedFleet]


def simulate(seed: int, asked: argparse.Namespace, fleet: Fleet = SimulatedFleet) -> Account:
    """Run the fleet of one seed in a folder of its own."""
    with in_memory() as folder:
        return fleet(
            seed,
            folder,
            hosts=asked.hosts,
            cells=asked.cells,
            runners=asked.runners,
            faults=asked.faults,
            ledger=asked.ledger,
        ).run()


def main(words: Sequence[str] | None = None, fleet: Fleet = SimulatedFleet) -> int:
    """Simulate; 1 where something that must hold does not."""
    asked = _parser().parse_args(words)
    failed = []
    for seed in range(asked.seed, asked.seed + asked.runs):
        account = simulate(seed, asked, fleet)
        if asked.story:
            print("\n".join(account.story))
        counts = ", ".join(f"{number} {state}" for state, number in sorted(account.counts.items()))
        print(
            f"seed {seed}: {counts}; {account.lives} lives of {asked.runners} runners, "
            f"{account.seconds:.0f} s of virtual time; story {account.digest[:12]}",
            flush=True,
        )
        if account.wrong:
            failed.append(seed)
            for what in account.wrong:
                print(f"  WRONG: {what}")
            print(f"  again: {_command(seed, asked)}", flush=True)
    print(f"{asked.runs} fleets, {len(failed)} where something is wrong")
    return 1 if failed else 0


def _command(seed: int, asked: argparse.Namespace) -> str:
    """What shows the same story again."""
    words = [f"--seed {seed} --hosts {asked.hosts} --cells {asked.cells}"]
    words.append(f"--runners {asked.runners} --ledger {asked.ledger}")
    if set(asked.faults) != set(FAULTS):
        words.append(f"--faults {','.join(asked.faults) or 'none'}")
    return f"python -m simulation.simulate {' '.join(words)} --story"


def _faults(text: str) -> tuple[str, ...]:
    if text in ("all", "none"):
        return FAULTS if text == "all" else ()
    chosen = tuple(part.strip() for part in text.split(","))
    if unknown := [part for part in chosen if part not in FAULTS]:
        raise argparse.ArgumentTypeError(
            f"no fault is called {unknown[0]!r}; there are all, none, {', '.join(FAULTS)}"
        )
    return chosen


def _at_least(least: int) -> type[int]:
    class Count(int):
        def __new__(cls, text: str) -> Count:
            number = super().__new__(cls, text)
            if number < least:
                raise argparse.ArgumentTypeError(f"at least {least}, not {text}")
            return number

    Count.__name__ = "number"
    return Count


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulation.simulate")
    parser.description = "Run the real runners on simulated hosts, in virtual time, with faults."
    add, some = parser.add_argument, random.SystemRandom().randrange(10**6)
    add("--seed", type=int, default=some, help="of all chances; one is drawn where none is given")
    add("--hosts", type=_at_least(0), default=3, metavar="H", help="beside the runner's own")
    add("--cells", type=_at_least(1), default=10, metavar="C")
    add("--runners", type=_at_least(1), default=2, metavar="R", help="at once, on one ledger")
    add("--runs", type=_at_least(1), default=1, metavar="K", help="so many seeds from this one on")
    add("--faults", type=_faults, default=FAULTS, help=f"all, none, or some of {', '.join(FAULTS)}")
    add("--ledger", choices=["memory", "sqlite"], default="memory")
    add("--story", action="store_true", help="print all that happens")
    return parser


if __name__ == "__main__":
    sys.exit(main())
