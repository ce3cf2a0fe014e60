"""One life of a simulated runner: the real loop with its threads, from its start to its end."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.placement import Placement
from benchfleet.domain.plan import ASSIGNED
from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.results.publish import PublishAll
from benchfleet.results.write import AttemptFolder
from benchfleet.runner.attempt.heartbeat import LeaseHeartbeat
from benchfleet.runner.build import RunnerComponents
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.events import (
    EventQueue,
    LeaseLost,
    RunnerEvent,
    ThreadFailed,
)
from benchfleet.runner.execution.retrying_ledger import RetryingLedger
from benchfleet.runner.loop import Runner
from benchfleet.runner.progress import Notice, Progress
from benchfleet.runner.resources.local_host import LocalHost
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.result_storage import ResultStorage
from benchfleet.runner.run_end import RunEnd
from benchfleet.runner.scheduler.run_request import RunRequest
from simulation.disk import SimulatedDisk, SimulatedFolder
from simulation.engine import SimulatedEngine
from simulation.hosts import Nature, SimulatedHost
from simulation.turns import Gate, Gone, Strand, Turns, VirtualEvent
from simulation.wire import LeaseWatch, Weather, WiredLedger

LEASE = 60.0  # seconds
_SLOW_STEP, _SLOWEST_STEP = 0.05, 3.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What all runners of a fleet share."""

    turns: Turns
    seed: str
    cells: Sequence[Cell]
    natures: Mapping[str, Nature]
    hosts: Sequence[SimulatedHost]
    layout: Layout
    disk: SimulatedDisk
    weather: Weather
    watch: LeaseWatch
    publish_all: PublishAll
    tell: Callable[[str, str], None]  # who, and what happened
    wrong: Callable[[str], None]
    placement: Callable[[int], Placement]  # by the number of the plan


class VirtualEventQueue(EventQueue):
    """The event queue of one process, in virtual time."""

    def __init__(self, turns: Turns, step: Callable[[str], None]) -> None:
        self._turns, self._step = turns, step
        self._queue: deque[RunnerEvent] = deque()
        self._taker: Strand | None = None

    def post(self, event: RunnerEvent) -> None:
        self._queue.append(event)
        if self._taker is not None:
            self._turns.wake(self._taker)

    def take(self, wait: float) -> RunnerEvent | None:
        self._step("take")
        if not self._queue:
            self._taker = self._turns.current
            self._turns.wait_until(self._turns.now() + max(0.0, wait))
            self._taker = None
        return self._queue.popleft() if self._queue else None

    def now(self) -> float:
        return self._turns.now()


class RunnerProcess:
    """A runner with its queue, engine, lease keeper and writers; `end` or `error` is how it ended.

    Nothing of it happens but in its steps, at each of which it may be slow, stopped or killed.
    """

    def __init__(
        self, name: str, around: Surroundings, ledger: Ledger, *, own: Pool | None, troubled: bool
    ) -> None:
        self.name, self._around, self._troubled = name, around, troubled
        self._turns, self._gate = around.turns, Gate()
        self._chance = random.Random(f"{around.seed} {name}")
        self._watched: tuple[str, Callable[[], None]] | None = None
        self._folders: list[SimulatedFolder] = []
        self._waiting: deque[Callable[[], None]] = deque()
        self._writing = False
        self._strands: list[Strand] = []
        self.end: RunEnd | None = None
        self.error: Exception | None = None
        self.over = self.in_peace = False
        self.last_words: Callable[[RunnerProcess], None] = lambda process: None
        self._ended = VirtualEvent(self._turns)
        self.inbox = VirtualEventQueue(self._turns, self.step)
        self.ledger = WiredLedger(
            ledger, around.watch, around.weather, step=self.step, wait=self._wait
        )
        serving = threading.Event()
        retrying = RetryingLedger(
            self.ledger,
            post=self.inbox.post,
            ending=self._ended,
            serving=serving,
            thread=lambda target, **_: self._strand(target),
            clock=self._turns.now,
        )
        self.engine = SimulatedEngine(
            post=self.inbox.post,
            later=self._turns.later,
            hosts=[host for host in around.hosts if host.name or own],
            natures=around.natures,
            chance=self._chance,
            dies_at_start=0.03 if troubled else 0.0,
            barred=around.placement(0).barred,
        )
        heartbeat = LeaseHeartbeat(
            retrying,
            lambda lease: self.inbox.post(LeaseLost(lease=lease)),
            lambda error: self.inbox.post(ThreadFailed(error=error)),
            every=LEASE / 5,
            clock=self._turns.now,
            ending=VirtualEvent(self._turns),
            thread=lambda target, **_: self._strand(target),
        )
        self._runner = Runner(
            RunnerComponents(
                RunnerContext(
                    runner=RunnerId(name),
                    local_host=LocalHost(pool=own),
                    ledger=retrying,
                    heartbeat=heartbeat,
                    engine=self.engine,
                    inbox=self.inbox,
                    layout=around.layout,
                    random=self._chance.random,
                ),
                RunRequest(
                    cells=around.cells,
                    placement=lambda: around.placement(len(retrying.events(kinds={ASSIGNED}))),
                ),
                ResultStorage(
                    disk_space=around.disk.disk_space,
                    folder=self._folder,
                    seal_all=around.disk.sealer(self.step),
                    publish_all=around.disk.publisher(around.publish_all, self.step),
                    background=self._write_later,
                ),
                observer=self._observe,
                stop_waiting=self._ended,
                serving=serving,
            )
        )

    def start(self) -> None:
        self._around.tell(self.name, "starts")
        self._strand(self._live).start()

    @property
    def alive(self) -> bool:
        return not self.over

    def step(self, what: str) -> None:
        """Come to a step: go on at once, later, or never. Raises `Gone` where it was killed."""
        if self._gate.dead:
            raise Gone
        if self._watched is not None and self._watched[0] in (what, "any"):
            (_, act), self._watched = self._watched, None
            self._around.tell(self.name, f"at {what}")
            act()
            self._turns.wait_until(self._turns.now())
        draw = self._chance.random() if self._troubled else 1.0
        if draw < 0.01:
            self._turns.wait_until(self._turns.now() + _SLOWEST_STEP * self._chance.random())
        elif draw < 0.1:
            self._turns.wait_until(self._turns.now() + _SLOW_STEP * self._chance.random())

    def _wait(self, seconds: float) -> None:
        self._turns.wait_until(self._turns.now() + seconds)

    def at_step(self, what: str, act: Callable[[], None]) -> None:
        """Have this happen when it next comes to that step."""
        self._watched = (what, act)

    def stop_for(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so long."""
        self._gate.stopped_until = self._turns.now() + seconds
        self._around.tell(self.name, f"is stopped for {seconds:.0f} s")

    def kill(self) -> None:
        """SIGKILL: its slots end with it."""
        if self.over:
            return
        self._around.tell(self.name, "is killed")
        self._gate.dead = True
        for strand in self._strands:
            self._turns.wake(strand)
        self._finish()

    def trouble_no_more(self) -> None:
        """Nothing that it does is slow or watched from now on."""
        self._troubled, self._watched = False, None
        self.ledger.cut = False

    def _live(self) -> None:
        try:
            self.end = self._runner.run()
        except Exception as error:  # noqa: BLE001 - the fleet judges it
            self.error = error
        self._finish()

    def _finish(self) -> None:
        self.over = True
        self.engine.over = True
        for folder in self._folders:
            folder.close()
        self.last_words(self)

    def _strand(self, target: Callable[[], None]) -> Strand:
        strand = self._turns.strand(self._gate, target, self.name)
        self._strands = [one for one in self._strands if not one.over] + [strand]
        return strand

    def _folder(self, folder: Path) -> AttemptFolder:
        made = self._around.disk.folder(folder, self.step)
        self._folders.append(made)
        return made

    def _write_later(self, work: Callable[[], None]) -> None:
        self._waiting.append(work)
        if not self._writing:
            self._writing = True
            self._strand(self._write).start()

    def _write(self) -> None:
        while self._waiting:
            self._waiting.popleft()()
        self._writing = False

    def _observe(self, notice: Notice, progress: Progress) -> None:
        parts = [notice.kind, notice.cell, notice.slot, notice.message]
        self._around.tell(self.name, " ".join(part for part in parts if part))
        counts = progress.states
        if sum(counts.values()) != progress.total or min(counts.values(), default=0) < 0:
            self._around.wrong(f"{self.name} shows {counts} of {progress.total} cells")
