"""The faults of a simulated fleet: drawn from the seed, and injected at their time."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchfleet.domain.event import Event
from benchfleet.domain.plan import Plan
from benchfleet.errors import LedgerError
from benchfleet.ledger.base import Ledger
from benchfleet.runner.events import Interrupted
from simulation.process import RunnerProcess, Surroundings

FAULTS = (
    "slot-loss", "host-loss", "slow-host", "partition", "late-writer", "full-disk", "restart",
    "cell-failure", "person",
)  # fmt: skip
_AT = (
    "any", "any", "claimed", "folder", "record", "seal", "sealed", "finish", "finished", "publish",
    "published", "release", "reaped",
)  # fmt: skip


Thing = TypeVar("Thing")


@dataclass(frozen=True, kw_only=True)
class Act:
    """One fault, with the numbers that decide what it hits and how long it lasts."""

    at: float  # seconds since the start
    fault: str
    which: float  # all three between 0 and 1
    how: float
    lasts: float


def draw_acts(seed: str, faults: Collection[str], span: float) -> list[Act]:
    """The faults of a fleet within `span` seconds: some of these faults, often few kinds, since
    many kinds hide each other (Groce et al., Swarm Testing, 2012)."""
    chance = random.Random(f"{seed} acts")
    done = [fault for fault in FAULTS if fault in faults and fault != "cell-failure"]
    if not done:
        return []
    done = chance.sample(done, chance.randint(1, len(done)))
    acts = [
        Act(
            at=chance.uniform(0.0, span),
            fault=chance.choice(done),
            which=chance.random(),
            how=chance.random(),
            lasts=chance.random(),
        )
        for _ in range(chance.randint(2, 20))
    ]
    return sorted(acts, key=lambda act: act.at)


class Adversary:
    """Does to a fleet what was drawn."""

    def __init__(
        self,
        around: Surroundings,
        ledger: Ledger,
        alive: Callable[[], Sequence[RunnerProcess]],
        join: Callable[[], None],
    ) -> None:
        self._around, self._ledger, self._alive, self._join = around, ledger, alive, join
        self._turns = around.turns

    def do(self, act: Act) -> None:
        """Do it now."""
        self._around.tell("", act.fault)
        if act.fault == "full-disk":
            self._fill(act)
        elif act.fault == "person":
            self._ask(act)
        elif act.fault in ("host-loss", "slow-host"):
            self._worsen_host(act)
        elif alive := self._alive():
            self._trouble(alive[int(act.which * len(alive))], act)

    def relent(self) -> None:
        """Let everything be well from now on."""
        around = self._around
        around.weather.away = around.weather.full = around.disk.full = False
        for host in around.hosts:
            host.slowness, host.hopeless = 1.0, False
            self._bring_back(host.name)
        for process in self._alive():
            process.trouble_no_more()
            for name in process.engine.hosts():
                process.engine.mend(name)

    def _trouble(self, process: RunnerProcess, act: Act) -> None:
        if act.fault == "slot-loss":
            self._around.tell(process.name, f"loses slot {process.engine.lose_slot(act.how)}")
        elif act.fault == "partition":
            self._part(process, act)
        elif act.fault == "late-writer":
            seconds = 20.0 + 160.0 * act.lasts
            process.at_step(_chosen(_AT, act.how), lambda: self._stop(process, seconds))
        elif act.how < 0.3:  # a restart by signal
            times = 1 if act.how < 0.2 else 2
            for _ in range(times):
                process.inbox.post(Interrupted(signal="SIGTERM"))
        else:
            process.at_step(_chosen(_AT, act.lasts), process.kill)

    def _stop(self, process: RunnerProcess, seconds: float) -> None:
        """Stop it; somebody who sees that nothing goes on starts another."""
        process.stop_for(seconds)
        self._turns.later(seconds / 3, self._join)

    def _part(self, process: RunnerProcess, act: Act) -> None:
        around, seconds = self._around, 5.0 + 100.0 * act.lasts
        names = process.engine.hosts()
        if act.how < 0.2:
            around.weather.away = True
            self._turns.later(seconds, lambda: setattr(around.weather, "away", False))
        elif act.how < 0.5 or not names:  # at a step: what was asked there may have been done
            step = _chosen(_AT, (act.how - 0.2) / 0.3 % 1.0)
            process.at_step(step, lambda: self._cut(process, seconds))
        else:
            name = _chosen(names, act.which)
            around.tell(process.name, f"is cut from {name}")
            if act.how < 0.7:
                process.engine.blink(name)
            else:
                process.engine.cut(name)
                self._turns.later(seconds, lambda: process.engine.mend(name))

    def _cut(self, process: RunnerProcess, seconds: float) -> None:
        process.ledger.cut = True
        self._turns.later(seconds, lambda: setattr(process.ledger, "cut", False))

    def _worsen_host(self, act: Act) -> None:
        host = _chosen(self._around.hosts, act.which)
        seconds = 10.0 + 120.0 * act.lasts
        if act.fault == "slow-host" or not host.name:
            host.slowness = 200.0 if act.how < 0.3 else 1.0 + 10.0 * act.how
            self._turns.later(seconds, lambda: setattr(host, "slowness", 1.0))
            return
        host.here, host.hopeless = False, act.how < 0.2
        self._look_again(host.name)
        self._turns.later(seconds, lambda: self._bring_back(host.name))

    def _bring_back(self, name: str) -> None:
        for host in self._around.hosts:
            if host.name == name and not host.here:
                host.here, host.hopeless = True, False
                self._look_again(name)

    def _look_again(self, name: str) -> None:
        for process in self._alive():
            process.engine.look_again(name)

    def _fill(self, act: Act) -> None:
        around, seconds = self._around, 5.0 + 60.0 * act.lasts
        if act.how < 0.4:
            around.weather.full = True
            self._turns.later(seconds, lambda: setattr(around.weather, "full", False))
        else:
            around.disk.full, around.disk.says_so = True, act.how < 0.7
            self._turns.later(seconds, lambda: setattr(around.disk, "full", False))

    def _ask(self, act: Act) -> None:
        """Somebody plans again, cancels a cell, or has what ended without a result tried again."""
        if act.how < 0.15:
            self._around.tell("somebody", "plans again")
            with contextlib.suppress(LedgerError):
                self._ledger.record(Plan().event())
            return
        records = list(self._ledger.cells())
        record = _chosen(records, act.which)
        ended = [r for r in records if r.state in ("failed", "partial", "cancelled")]
        if act.how < 0.5 and ended:
            record, kind = _chosen(ended, act.which), "retry_asked"
        else:
            kind = "cancel_asked"
        self._around.tell("somebody", f"{kind} {record.path}")
        try:
            self._ledger.record(Event(kind=kind, fingerprint=record.fingerprint))
        except LedgerError:
            return
        if kind == "cancel_asked":
            self._around.watch.cancelled(record.fingerprint)


def _chosen(among: Sequence[Thing], draw: float) -> Thing:
    return among[int(draw * len(among))]
