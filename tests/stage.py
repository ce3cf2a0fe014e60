"""A runner with everything around it but slots, which follow a script in virtual time."""

from __future__ import annotations

import heapq
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchfleet.domain.attempt import Advice, Outcome, RunnerId
from benchfleet.domain.budget import Budget
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure
from benchfleet.domain.placement import Placement
from benchfleet.domain.resource import Device, Need
from benchfleet.engines.base import (
    AttemptRequest,
    Done,
    Recorded,
    SlotEvent,
    SlotId,
    SlotLost,
    SlotReady,
    SlotSpec,
    Started,
    Stopped,
)
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.policies.base import Policy
from benchfleet.results.layout import Layout
from benchfleet.runner.attempt.heartbeat import LeaseHeartbeat
from benchfleet.runner.build import RunnerComponents
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.disk_guard import UNLIMITED, DiskSpace
from benchfleet.runner.events import EventQueue, Interrupted, LeaseLost, RunnerEvent
from benchfleet.runner.loop import Runner
from benchfleet.runner.progress import Notice, Progress
from benchfleet.runner.resources.local_host import LocalHost
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.result_storage import ResultStorage, at_once
from benchfleet.runner.run_end import RunEnd
from benchfleet.runner.scheduler.run_request import GateConfig, RunRequest
from benchfleet.runner.worker_options import WorkerOptions
from benchfleet.testing.clock import FakeClock
from benchfleet.testing.sample_cells import sample_cell
from simulation.disk import NoFolder

CPU = Pool(devices=tuple(Device(kind="cpu", index=i) for i in range(2)), slots=2)
GPUS = Pool(devices=tuple(Device(kind="gpu", index=i, memory=8 * 10**9) for i in range(2)), slots=2)
HORIZON = 10_000.0  # virtual seconds after which a run that goes on has hung


class VirtualEventQueue(EventQueue):
    """Events at times of their own; taking one moves the clock to it."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.began = clock()
        self._due: list[tuple[float, int, RunnerEvent]] = []
        self._count = 0

    def post(self, event: RunnerEvent, *, after: float = 0.0) -> None:
        self._count += 1
        heapq.heappush(self._due, (self.clock() + after, self._count, event))

    def take(self, wait: float) -> RunnerEvent | None:
        assert self.clock() < self.began + HORIZON, "the run does not end"
        until = self.clock() + max(0.0, wait)
        if self._due and self._due[0][0] <= until:
            at, _, event = heapq.heappop(self._due)
            self.clock.now = max(self.clock.now, at)
            return event
        self.clock.now = until
        return None

    def is_interrupted(self, within: float) -> bool:
        until = self.clock() + within
        return any(isinstance(event, Interrupted) and at <= until for at, _, event in self._due)

    def now(self) -> float:
        return self.clock()


@dataclass
class ScriptedEngine:
    """Slots that start at once and do what `script` says of each request."""

    inbox: VirtualEventQueue
    script: Callable[[SlotId, AttemptRequest], Sequence[tuple[float, SlotEvent]]]
    specs: dict[str, SlotSpec] = field(default_factory=dict)
    opened: list[SlotSpec] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)  # of the orders
    dead_on_arrival: str = ""  # interpreter whose slots never start
    dead_devices: set[int] = field(default_factory=set)  # devices on which none starts
    start_takes: float = 0.0  # seconds
    far: tuple[str, ...] = ()  # hosts that it reaches

    def slots(self) -> Sequence[SlotId]:
        return [SlotId(name) for name in self.specs]

    def expect(self, waiting: Mapping[Need, int]) -> None: ...

    def hosts(self) -> Sequence[str]:
        return self.far

    def open(self, spec: SlotSpec) -> None:
        self.specs[spec.slot] = spec
        self.opened.append(spec)
        dead = self.dead_on_arrival == spec.python != "" or self.dead_on_arrival == "all"
        if dead or self.dead_devices & {device.index for device in spec.devices}:
            self.inbox.post(SlotLost(slot=spec.slot, reason="exit code 1", exit_code=1))
        else:
            hello = {"slot": spec.slot, "cell": "", "pid": 1}
            self.inbox.post(SlotReady(slot=spec.slot, hello=hello), after=self.start_takes)

    def run(self, slot: SlotId, request: AttemptRequest) -> None:
        self.requests.append((slot, request.cell.id))
        self.cells.append(request.cell)
        for after, event in self.script(slot, request):
            self.inbox.post(event, after=after)

    def stop(self, slot: SlotId, attempt: str) -> None:
        self.inbox.post(Stopped(slot=slot, attempt=attempt, reason="asked to"), after=0.5)

    def close(self, slot: SlotId) -> None:
        self.specs.pop(slot, None)
        self.inbox.post(SlotLost(slot=slot, reason="exit code 0", expected=True, exit_code=0))

    kill = close

    def shutdown(self) -> None:
        self.specs.clear()


def sample(request: AttemptRequest, slot: SlotId, index: int) -> Recorded:
    """The answer to one of the two samples of an order."""
    line = {"index": index, "id": f"s{index}", "columns": {}, "predicted_answer": "x"}
    return Recorded(
        slot=slot, attempt=request.attempt, lines=json.dumps(line).encode() + b"\n", done=index + 1,
        total=2,
    )  # fmt: skip


def good(slot: SlotId, request: AttemptRequest) -> list[tuple[float, SlotEvent]]:
    """Two samples and an end, over ten seconds."""
    score = {"overall": 1.0, "per_sample": [1.0, 1.0], "tasks": {}, "summary": {}}
    known = request.recorded.count(b"\n")
    score["summary"] = {"cell": "a name that the loop uses too"}
    return [
        (0, Started(slot=slot, attempt=request.attempt, stage="benchmark")),
        *[(4.0 * (i + 1), sample(request, slot, i)) for i in range(known, 2)],
        (10, Done(slot=slot, attempt=request.attempt, score=score, seconds={"benchmark": 10})),
    ]


def _nothing(moves: Sequence[tuple[Path, Path]]) -> list[None]:
    """Publish nothing of what has no folder."""
    return [None] * len(moves)


@dataclass
class Stage:
    """A runner with everything around it."""

    folder: Path
    clock: FakeClock = field(default_factory=FakeClock)
    notices: list[Notice] = field(default_factory=list)
    disk_space: Callable[[], DiskSpace] = lambda: UNLIMITED
    slept: float = 0.0  # seconds that leases ran on while the machine, and its clock, stood still
    renew_every: float = 1e9
    background: Callable[[Callable[[], None]], object] = at_once
    local_host: LocalHost = LocalHost()  # noqa: RUF009 - frozen
    policy: Policy | None = None  # the default one
    gate_config: GateConfig = field(default_factory=GateConfig)
    options: WorkerOptions = WorkerOptions()  # noqa: RUF009 - frozen
    placement: Callable[[], Placement] = Placement
    serving: threading.Event = field(default_factory=threading.Event)
    budget: Budget | None = None
    name: str = "us" * 16
    keeps: bool = True  # False: attempts have no folders, and many cells take little time

    def __post_init__(self) -> None:
        self.inbox = VirtualEventQueue(self.clock)
        self.ledger = MemoryLedger(clock=self.since_boot, lease=60)
        self.engine = ScriptedEngine(self.inbox, good)
        self.layout = Layout(self.folder)
        self.thief: object = None

    def since_boot(self) -> float:
        return self.clock() + self.slept

    def watch(self, notice: Notice, progress: Progress) -> None:
        self.notices.append(notice)
        if notice.kind != "run_started":
            assert sum(progress.states.values()) == progress.total
            assert min(progress.states.values()) >= 0

    def runner(self, cells: Sequence[Cell], pool: Pool = CPU) -> Runner:
        self.ending = threading.Event()
        self.heartbeat = LeaseHeartbeat(
            self.ledger,
            lambda lease: self.inbox.post(LeaseLost(lease=lease)),
            lambda error: None,
            every=self.renew_every,
            clock=self.since_boot,
        )
        disk = ResultStorage(disk_space=self.disk_space, background=self.background)
        return Runner(
            RunnerComponents(
                RunnerContext(
                    runner=RunnerId(self.name),
                    local_host=replace(self.local_host, pool=pool),
                    ledger=self.ledger,
                    heartbeat=self.heartbeat,
                    engine=self.engine,
                    inbox=self.inbox,
                    layout=self.layout,
                    random=lambda: 1.0,
                ),
                RunRequest(
                    cells=cells,
                    policy=self.policy,
                    gate_config=self.gate_config,
                    placement=self.placement,
                    options=self.options,
                    budget=self.budget,
                ),
                disk if self.keeps else replace(disk, folder=NoFolder, publish_all=_nothing),
                observer=self.watch,
                stop_waiting=self.ending,
                serving=self.serving,
            )
        )

    def run(self, cells: Sequence[Cell], pool: Pool = CPU) -> RunEnd:
        return self.runner(cells, pool).run()

    def states(self) -> dict[str, str]:
        return {record.path: record.state for record in self.ledger.cells()}

    def notices_of(self, kind: str) -> list[Notice]:
        return [notice for notice in self.notices if notice.kind == kind]

    def warnings(self, words: str = "") -> list[str]:
        """What it warned of in these words, among others."""
        return [notice.message for notice in self.notices_of("warning") if words in notice.message]


def cells(count: int, **named: Any) -> list[Cell]:
    """So many cells, alike but for their benchmark; `named` as `sample_cell` has it."""
    return [sample_cell(number, **named) for number in range(count)]


def advised(stage: Stage, cell: Cell, advice: Advice) -> None:
    """What another runner leaves that ran out of memory under the cell."""
    stage.ledger.enroll([cell])
    (claim,) = stage.ledger.claim(RunnerId("other"), [cell.fingerprint])
    failure = Failure(stage="benchmark", kind="oom", message="no room", retryable=True)
    stage.ledger.finish(
        claim.lease,
        Outcome(state="failed", failure=failure, retry_in=0, charged=False, advice=advice),
    )


def mixed_gpus(slots: int = 2) -> Pool:
    """A small GPU and a large one."""
    sizes = (24, 80)
    devices = [Device(kind="gpu", index=n, memory=gb * 10**9) for n, gb in enumerate(sizes)]
    return Pool(devices=tuple(devices), slots=slots)
