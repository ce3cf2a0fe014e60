"""Simulated fleets: what must hold does, a story is the same twice, and real defects are found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Fingerprint
from benchfleet.errors import ClaimLost, ResultsError
from benchfleet.ledger.base import Ledger
from benchfleet.results.publish import Moves, PublishAll, publish
from benchfleet.testing.claims import claim_any
from simulation.simulate import in_memory, main
from simulation.simulated import Account, SimulatedFleet

PLENTY = 100  # seeds within which a defect is to be found
SEEDS = 12  # of fleets without a defect; `make soak` takes ever new ones


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder where syncing costs nothing."""
    with in_memory() as folder:
        yield folder


def simulated(seed: int, folder: Path, **named: object) -> Account:
    folder.mkdir()
    account = SimulatedFleet(seed, folder, **named).run()  # type: ignore[arg-type]
    shutil.rmtree(folder)
    return account


def test_what_must_hold_does_in_every_fleet(place: Path) -> None:
    for seed in range(SEEDS):
        account = simulated(seed, place / f"{seed}", cells=8, hosts=2 + seed % 3)
        assert not account.wrong, f"seed {seed}: {account.wrong}"
        assert sum(account.counts.values()) == 8


def test_what_must_hold_does_in_every_fleet_on_sqlite(place: Path) -> None:
    account = simulated(0, place / "0", cells=6, hosts=2, ledger="sqlite")
    assert not account.wrong, account.wrong


def test_a_fleet_without_faults_runs_every_cell_once(place: Path) -> None:
    account = simulated(7, place / "7", faults=(), runners=1)
    assert account.counts == {"success": 10}
    done = [line for line in account.story if " cell_done " in line]
    assert sum("+part" not in line for line in done) == 10
    assert len(set(done)) == len(done)  # no part twice either
    assert not any(" cell_failed " in line for line in account.story)


def test_a_server_that_is_away_for_a_while_ends_no_run(place: Path) -> None:
    waited = 0
    for seed in range(12):
        account = simulated(seed, place / f"{seed}", faults=("partition",), cells=16)
        assert not account.wrong, f"seed {seed}: {account.wrong}"
        waited += any("the ledger answers again" in line for line in account.story)
        assert not any("ends with LedgerAway" in line for line in account.story)
    assert waited


def command(*words: str, seed_of_hashes: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "simulation.simulate", *words],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONHASHSEED": seed_of_hashes,
            "PYTHONPATH": str(Path(__file__).parents[1]),
        },
    )


def test_one_seed_is_one_story_to_the_byte() -> None:
    words = ["--seed", "22", "--runs", "3", "--story"]
    one, other = (command(*words, seed_of_hashes=number) for number in "12")
    assert one.returncode == 0, one.stdout
    assert one.stdout == other.stdout
    assert one.stdout.count("peace") == 3
    different = command("--seed", "25", "--story")
    assert different.stdout not in one.stdout


def test_wrong_words_are_refused_by_name() -> None:
    done = command("--faults", "slot-loss,flood")
    assert done.returncode == 2
    assert "no fault is called 'flood'; there are all, none, slot-loss" in done.stderr
    assert command("--cells", "0").returncode == 2


# Defects, each found within so many seeds.


class Altered:
    """A ledger that passes on all that it is asked."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)


class Tokenless(Altered):
    """Takes any finish, whatever its token."""

    def finish(self, lease: Lease, outcome: Outcome) -> None:
        try:
            self._ledger.finish(lease, outcome)
        except ClaimLost:
            (record,) = self._ledger.cells(fingerprints=[lease.fingerprint])
            if record.state == "running":
                self._ledger.finish(replace(lease, token=record.token), outcome)


class Generous(Altered):
    """Hands a cell out again that somebody has, now and then."""

    given: Sequence[Claim] = ()
    asked = 0

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        type(self).asked += 1
        if self.asked % 7 == 0 and self.given:
            return self.given
        claims = self._ledger.claim(runner, candidates, limit)
        type(self).given = claims or self.given
        return claims


class Careless(Altered):
    """Gives any cell that fits, whichever the runner asked for."""

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        return claim_any(self._ledger, runner, limit)


class Hasty(Altered):
    """Takes back what is held, every now and then."""

    asked = 0

    def reap(self) -> Sequence[Fingerprint]:
        type(self).asked += 1
        held = list(self._ledger.cells(states=["running"]))
        if self.asked % 20 or not held:
            return self._ledger.reap()
        lease = Lease(
            fingerprint=held[0].fingerprint,
            attempt=held[0].attempt,
            token=held[0].token,
            expires_in=0.0,
        )
        self._ledger.release([lease], "too early")
        return [lease.fingerprint]


class Sleepy(Altered):
    """Takes nothing back from the dead."""

    def reap(self) -> Sequence[Fingerprint]:
        return []


def overwriting(folder: Path, public: Path) -> None:
    shutil.rmtree(public, ignore_errors=True)
    if folder.exists():
        publish(folder, public)


def in_pieces(folder: Path, public: Path) -> None:
    """Publishes all but what the benchmark sent."""
    publish(folder, public)
    shutil.rmtree(public / "notes")


def nowhere(folder: Path, public: Path) -> None:
    """Says that it published."""


def each(publish: Callable[[Path, Path], None]) -> PublishAll:
    """One after the other."""

    def publish_each(moves: Moves) -> Sequence[ResultsError | None]:
        found: list[ResultsError | None] = []
        for folder, public in moves:
            try:
                publish(folder, public)
                found.append(None)
            except ResultsError as error:
                found.append(error)
        return found

    return publish_each


def test_a_defect_is_reported_with_what_shows_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seed", "3", "--runs", "1", "--cells", "4", "--faults", "restart,late-writer"]
    assert main(words, partial(SimulatedFleet, publish_all=each(nowhere))) == 1
    output = capsys.readouterr().out
    assert "WRONG: " in output
    again = re.search(r"again: python -m simulation.simulate (.*)", output)
    assert again is not None
    assert main(again[1].split(), partial(SimulatedFleet, publish_all=each(nowhere))) == 1
    shown = capsys.readouterr().out
    assert re.findall(r"seed 3: .*", shown) == re.findall(r"seed 3: .*", output)
    assert " late-writer" in shown


def found(folder: Path, says: str, **named: object) -> list[str]:
    """What was found wrong up to what says that; a defect may show in several ways."""
    wrong: list[str] = []
    for seed in range(PLENTY):
        wrong += simulated(seed, folder / f"{seed}", cells=8, **named).wrong
        if any(says in what for what in wrong):
            break
    return wrong


@pytest.mark.parametrize(
    ("alter", "says"),
    [
        (Tokenless, "was finished after a newer claim"),
        (Generous, "while the lease of token"),
        (Careless, "is pending after"),  # its runners get cells that are not theirs
        (Hasty, "was reaped before its lease ran out"),
        (Sleepy, "does not end"),
    ],
)
def test_a_ledger_with_a_defect_is_found(
    place: Path, alter: Callable[[Ledger], Ledger], says: str
) -> None:
    wrong = found(place, says, alter=alter)
    assert any(says in what for what in wrong), wrong


@pytest.mark.parametrize(
    ("publisher", "says"),
    [
        (overwriting, "was published and is gone"),
        (in_pieces, "notes/of-it.txt is missing"),
        (nowhere, "was published and is gone"),
    ],
)
def test_a_publisher_with_a_defect_is_found(
    place: Path, publisher: Callable[[Path, Path], None], says: str
) -> None:
    wrong = found(place, says, publish_all=each(publisher))
    assert any(says in what for what in wrong), wrong
