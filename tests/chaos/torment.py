"""Runs a campaign again and again while it kills, stops, fills and cuts, and checks what must hold.

``python -m chaos.torment [CAMPAIGN] --minutes N --seed S``: see docs/reliability.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from chaos.rounds import Torment

BUILT_IN = """\
campaign: torment
matrix:
  models:
    - {name: quick, adapter: mock}
    - {name: slow, adapter: mock, model_kwargs: {load_seconds: 0.3, seconds: 0.05, answer: Ingham}}
  configs: {dense: null}
  benchmarks:
    - mock_benchmark
    - _hostile: {samples: 80, seconds: 0.08, act: litter, at: 3, size: 3000000}
    - recall: {samples: 10, subsets: ["512"]}
defaults: {repeats: 2, limits: {tries: 1000}}
"""  # the longest cells take longer than a lease


def main(words: Sequence[str] | None = None) -> int:
    """Torment a campaign; 1 where something was found to be wrong."""
    asked = _parser().parse_args(words)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with _place(asked.results) as place:
        campaign, options = asked.campaign, shlex.split(asked.run)
        if campaign is None:
            campaign = place / "torment.yaml"
            campaign.write_text(BUILT_IN)
            options = ["--cpu-slots", "3", *options]
        torment = Torment(campaign=campaign, place=place, seed=asked.seed, options=options)
        try:
            if asked.round is not None:
                torment.look_undisturbed()
                torment.round(asked.round)
            else:
                torment.for_minutes(asked.minutes)
        finally:
            if asked.json is not None:
                log = {"seed": asked.seed, "acts": [asdict(act) for act in torment.acts]}
                asked.json.write_text(json.dumps(log, indent=1))
        rounds = len({act.round for act in torment.acts})
        done = len(torment.acts)
        print(f"seed {asked.seed}: {rounds} rounds, {done} acts, {len(torment.wrong)} wrong")
        return 1 if torment.wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos.torment")
    parser.description = "Run a campaign again and again while everything is done to it."
    add = parser.add_argument
    add(
        "campaign",
        nargs="?",
        type=Path,
        metavar="CAMPAIGN",
        help="a small one; there is one built in",
    )
    add("--minutes", type=float, default=2.0, help="for how long; the last round is ended")
    add("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="of all chances")
    add("--round", type=int, metavar="N", help="only this round of the seed")
    add("--run", default="", metavar="WORDS", help="options of `benchfleet run`, in one word")
    add("--results", type=Path, metavar="DIR", help="where rounds lie; a temporary folder else")
    add("--json", type=Path, metavar="FILE", help="write all acts and findings there")
    return parser


@contextlib.contextmanager
def _place(asked: Path | None) -> Iterator[Path]:
    """The folder for the rounds, which is removed where it was not asked for and is empty of
    findings."""
    if asked is not None:
        asked.mkdir(parents=True, exist_ok=True)
        yield asked.resolve()
        return
    place = Path(tempfile.mkdtemp(prefix="benchfleet-torment-"))
    yield place
    if not any(place.glob("round-*")):
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
