"""A whole fleet in virtual time: real runners on one ledger and one results tree, on simulated
hosts, under the faults that the seed draws; then the invariants are checked."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchfleet.domain.part import SPLIT
from benchfleet.domain.plan import Plan
from benchfleet.domain.state import FINAL_STATES
from benchfleet.errors import LedgerAway, LedgerUnreachable
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.results.layout import FAILURE, SAMPLES, Layout
from benchfleet.results.publish import PublishAll, publish_all
from benchfleet.results.samples import read_samples
from benchfleet.runner.resources.shapes import Pool
from simulation.disk import SimulatedDisk
from simulation.faults import FAULTS, Adversary, draw_acts
from simulation.hosts import draw_cells, draw_natures, draw_placing, make_hosts, sample_of
from simulation.invariants import wrong_history, wrong_results
from simulation.process import LEASE, RunnerProcess, Surroundings
from simulation.turns import Turns
from simulation.wire import LeaseWatch, draw_weather

HORIZON = 6_000.0  # virtual seconds in which a fleet that is left alone comes to its end
_PEACE = 6  # undisturbed runs until every cell is to have ended
LedgerName = Literal["memory", "sqlite"]


@dataclass(frozen=True, kw_only=True)
class Account:
    """What became of a simulated fleet."""

    seed: int
    wrong: tuple[str, ...]  # what must hold and does not
    story: tuple[str, ...]  # all that happened, in its order
    counts: dict[str, int]  # cells by their state
    lives: int  # of all runners together
    seconds: float  # virtual

    @property
    def digest(self) -> str:
        """The same for the same story."""
        return hashlib.sha256("\n".join(self.story).encode()).hexdigest()


class SimulatedFleet:
    """One fleet of the seed's. `run` it once.

    `root` is an empty folder for the results. `alter` may put another ledger before the campaign's,
    and `publish_all` may be another publisher: to see that what is wrong with them is found.
    """

    def __init__(
        self,
        seed: int,
        root: Path,
        *,
        hosts: int = 3,
        cells: int = 10,
        runners: int = 2,
        faults: Collection[str] = FAULTS,
        ledger: LedgerName = "memory",
        alter: Callable[[Ledger], Ledger] = lambda ledger: ledger,
        publish_all: PublishAll = publish_all,
    ) -> None:
        self._seed, self._root, self._faults, self._alter = seed, root, faults, alter
        self._turns = Turns()
        self._began = self._turns.now()
        self._kind, self._kept = ledger, MemoryLedger(clock=self._turns.clock, lease=LEASE)
        self._runners = runners
        self._story: list[str] = []
        self._wrong: list[str] = []
        self._processes: list[RunnerProcess] = []
        self._lives: Counter[int] = Counter()
        self._peace = False
        key = f"{seed}"
        machines = make_hosts(hosts)
        declared = draw_cells(key, cells, machines, faults="cell-failure" in faults)
        self._around = Surroundings(
            turns=self._turns,
            seed=key,
            cells=declared,
            natures=draw_natures(key, declared, faults="cell-failure" in faults),
            hosts=machines,
            layout=Layout(root),
            disk=SimulatedDisk(root=root),
            weather=draw_weather(key),
            watch=LeaseWatch(now=self._turns.now, lasts=LEASE),
            publish_all=publish_all,
            tell=self._tell,
            wrong=self._wrong.append,
            placement=lambda plan: draw_placing(key, declared, machines, plan=plan),
        )
        self._ledger = self._opened()
        self._adversary = Adversary(self._around, self._ledger, self._alive, self._join)

    def run(self) -> Account:
        """Let all of it happen, and judge it."""
        self._ledger.enroll(self._around.cells)
        self._ledger.record(Plan(number=1).event())
        span = 30.0 + 15.0 * len(self._around.cells) / len(self._around.hosts)
        for act in draw_acts(f"{self._seed}", self._faults, span):
            self._turns.later(act.at, lambda act=act: self._adversary.do(act))  # type: ignore[misc]
        for number in range(self._runners):
            self._turns.later(5.0 * number, lambda number=number: self._start(number))  # type: ignore[misc]
        self._turns.later(span, self._relent)
        self._let_all_end(self._began + span + HORIZON)
        for _ in range(_PEACE):
            if self._wrong:
                break
            self._start(max(self._lives) + 1)
            self._let_all_end(self._turns.now() + HORIZON)
            if self._ended_all():
                break
        self._check()
        if self._ledger is not self._kept:
            self._ledger.close()
        return Account(
            seed=self._seed,
            wrong=tuple(dict.fromkeys(self._wrong)),
            story=tuple(self._story),
            counts=dict(Counter(record.state for record in self._kept_records)),
            lives=sum(self._lives.values()),
            seconds=self._turns.now() - self._began,
        )

    # How it goes

    def _alive(self) -> list[RunnerProcess]:
        return [process for process in self._processes if process.alive]

    def _opened(self) -> Ledger:
        if self._kind == "memory":
            return self._alter(self._kept)
        file = self._root / "ledger.db"
        return self._alter(
            SqliteLedger(file, campaign="simulated", clock=self._turns.clock, lease=LEASE)
        )

    def _start(self, number: int) -> None:
        self._lives[number] += 1
        own = number == 0 or not any(host.name for host in self._around.hosts)
        here = self._around.hosts[0]
        process = RunnerProcess(
            f"r{number}.{self._lives[number]}",
            self._around,
            self._opened(),
            own=Pool(devices=here.devices, slots=here.slots) if own else None,
            troubled=not self._peace and bool(self._faults),
        )
        process.in_peace = self._peace
        process.last_words = lambda process: self._ended(number, process)
        self._processes.append(process)
        process.start()

    def _ended(self, number: int, process: RunnerProcess) -> None:
        self._judge(process)
        if self._kind == "sqlite":
            process.ledger.close()
        whole = process.end is not None and not (process.end.interrupted or process.end.broken)
        if not (self._peace or whole):
            self._turns.later(10.0 * self._lives[number], lambda: self._again(number))
        self._turns.wake_main()

    def _again(self, number: int) -> None:
        if not self._peace:
            self._start(number)

    def _join(self) -> None:
        """One more runner, unless there are many."""
        if not self._peace and len(self._alive()) < self._runners + 2:
            self._start(max(self._lives) + 1)

    def _relent(self) -> None:
        self._tell("", "peace")
        self._peace = True
        self._adversary.relent()
        self._turns.wake_main()

    def _let_all_end(self, until: float) -> None:
        while (self._alive() or not self._peace) and not self._turns.errors:
            if self._turns.now() >= until:
                self._wrong.append(f"{', '.join(p.name for p in self._alive())} does not end")
                break
            self._turns.wait_until(until)
        for error in self._turns.errors:
            self._wrong.append(f"a thread ended with {error!r}")
        for process in self._alive():
            process.kill()
        self._turns.wait_until(self._turns.now() + 1.0)

    def _tell(self, who: str, what: str) -> None:
        at = self._turns.now() - self._began
        what = what.replace(str(self._root), "ROOT")
        self._story.append(f"{at:10.3f} s  {who:6} {what}")

    # What must hold

    def _judge(self, process: RunnerProcess) -> None:
        name, end = process.name, process.end
        for rule in process.engine.broken_rules:
            self._wrong.append(f"{name}: {rule}")
        if process.error is not None:
            self._tell(name, f"ends with {process.error!r}")
            gone = isinstance(process.error, LedgerUnreachable)
            if isinstance(process.error, LedgerAway):  # which is waited for
                gone = process.ledger.given_up
            if process.in_peace or not gone:
                self._wrong.append(f"{name} ended with {process.error!r}")
        if end is None:
            return
        self._tell(name, f"ends after {end.ran} attempts; {dict(end.progress.states)}")
        if end.interrupted or end.broken:
            return
        counts = Counter(record.state for record in self._ledger.cells())
        if counts != +Counter(end.progress.states):
            self._wrong.append(f"{name} ended with {end.progress.states}, the ledger has {counts}")
        if process.engine.slots():
            self._wrong.append(f"{name} ended and left slots")

    def _ended_all(self) -> bool:
        return all(record.state in FINAL_STATES for record in self._ledger.cells())

    def _check(self) -> None:
        around = self._around
        self._kept_records = list(self._ledger.cells())
        digests = {}
        for record in self._kept_records:
            nature = around.natures[record.fingerprint]
            if record.state not in FINAL_STATES:
                self._wrong.append(f"{record.path} is {record.state} after {_PEACE} runs in peace")
            elif record.state == "success":
                assert record.outcome is not None
                digests[record.path] = record.outcome.digest
                self._check_samples(record.path, record.fingerprint, nature.samples)
                self._check_attempts(record.path, record.fingerprint)
            elif record.state != "cancelled" and nature.temper == "even" and record.tries >= 1000:
                self._wrong.append(f"{record.path} {record.state}, and nothing was wrong with it")
        kept = self._kept_parts()
        for path in around.disk.published:
            if path in digests or path in kept:
                around.disk.look_at(around.layout.published(path))
        self._wrong += around.watch.wrong + around.disk.wrong
        self._wrong += wrong_history(self._ledger.events(), around.watch.expiries)
        self._wrong += wrong_results(self._root, digests | kept)

    def _kept_parts(self) -> dict[str, str]:
        """The digests of the results of parts that are to be here, by path: those of cells without
        a result of their own."""
        splits = self._ledger.events(kinds={SPLIT})
        done = {record.fingerprint for record in self._kept_records if record.state == "success"}
        parts = {
            name
            for split in splits
            if split.fingerprint not in done
            for name in split.data["parts"]
        }
        records = self._ledger.cells(states=["success"], fingerprints=parts)
        return {record.path: record.outcome.digest for record in records if record.outcome}

    def _check_samples(self, path: str, fingerprint: str, count: int) -> None:
        found = read_samples(self._around.layout.published(path) / SAMPLES)
        right = {index: sample_of(fingerprint, index) for index in range(count)}
        output = {i: {name: r[name] for name in right.get(i, r)} for i, r in found.items()}
        if output != right:
            self._wrong.append(f"{path} has the samples {json.dumps(output)[:200]}")

    def _check_attempts(self, path: str, fingerprint: str) -> None:
        """Only what failed is left: what a runner made that was killed as it woke past its leases,
        the run in peace has removed, which began after all others ended."""
        for folder in self._around.layout.attempts_of(fingerprint).glob("*"):
            if not (folder / FAILURE).exists():
                self._wrong.append(f"{path} is published, and its attempt {folder.name} is left")
