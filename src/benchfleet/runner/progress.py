"""The progress of a run: counts, what each slot does, and the time left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from benchfleet.domain.telemetry import Reading
from benchfleet.domain.usage import UsageTotal
from benchfleet.domain.worker_progress import SlotProgress, WorkerProgress

MIN_SAMPLES = 5  # that tell how long a cell's others take; of a small cell a quarter of it
_LEAST_S = 0.1  # a shorter estimate says nothing

NoticeKind = Literal[
    "run_started",
    "host_ready",
    "host_lost",
    "slot_opening",
    "slot_ready",
    "slot_lost",
    "slots_changed",
    "cell_started",
    "cell_resumed",
    "cell_split",
    "cell_progress",
    "cell_done",
    "cell_failed",
    "cell_released",
    "cell_cancelled",
    "claim_lost",
    "published_late",
    "results_taken",
    "waiting",
    "gate_decided",
    "kept_off",
    "blocked",
    "budget_used",
    "budget_spent",
    "interrupted",
    "warning",
    "run_ended",
]


@dataclass(frozen=True, kw_only=True)
class Notice:
    """An event that the observer of a run displays."""

    kind: NoticeKind
    cell: str = ""
    slot: str = ""
    message: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    ending: bool = False  # no more cells begin in this run


@dataclass(kw_only=True)
class Running:
    """What one slot does now."""

    slot: str
    devices: str  # gpu:0 or gpu:0+1
    cell: str = ""  # "" while it starts or idles
    stage: str = "starting"  # starting, idle, load, benchmark
    done: int = 0
    before: int = 0  # of these, that earlier attempts had answered
    total: int = 0
    since: float = 0.0  # when the cell began, on the inbox's clock
    asked_since: float = 0.0  # when its benchmark did
    generated: int = 0  # tokens since then
    reading: Reading | None = None  # the latest of the cell

    def seconds_per_sample(self, now: float) -> float | None:
        """Of this attempt; None before enough samples, and where it asks for none."""
        new = self.done - self.before
        if (
            self.stage != "benchmark"
            or new <= 0
            or new < min(MIN_SAMPLES, self.total / 4)
            or self.total < self.done
        ):
            return None
        return (now - self.asked_since) / new

    @property
    def memory(self) -> tuple[int | None, int | None]:
        """Bytes that are used, and the total, of its fullest GPU; else of RAM, without a total."""
        if self.reading is None:
            return None, None
        gpus = [gpu for gpu in self.reading.gpus if gpu.memory is not None and gpu.total]
        if not gpus:
            return self.reading.ram or None, None
        fullest = max(gpus, key=lambda gpu: (gpu.memory or 0) / (gpu.total or 1))
        return fullest.memory, fullest.total

    def snapshot(self, now: float) -> SlotProgress:
        """What it does, as others see it."""
        memory, memory_total = self.memory
        return SlotProgress(
            devices=self.devices,
            cell=self.cell,
            stage=self.stage,
            done=self.done,
            total=self.total,
            seconds=max(0.0, now - self.since) if self.cell else 0.0,
            tokens_per_second=self.tokens_per_second(now),
            memory=memory,
            memory_total=memory_total,
        )

    def take(self, cell: str, *, done: int, now: float) -> None:
        """A cell begins."""
        self.cell, self.stage, self.done, self.total, self.since = cell, "load", done, 0, now
        self.before = done
        self.generated, self.reading = 0, None

    def enter(self, stage: str, now: float) -> None:
        """A stage of the cell begins."""
        self.stage, self.asked_since = stage, now

    def tokens_per_second(self, now: float) -> float | None:
        """Generated, since the benchmark began; None where none were counted."""
        seconds = now - self.asked_since
        return self.generated / seconds if self.generated and seconds > 0 else None

    def rest(self) -> None:
        """Nothing runs."""
        self.cell, self.stage, self.done, self.total, self.before = "", "idle", 0, 0, 0
        self.generated, self.reading = 0, None


@dataclass(frozen=True, kw_only=True)
class Eta:
    """How long a run should still take, as it was seen at one moment."""

    seconds: float
    spread: float  # seconds: one standard deviation
    at: float  # on the inbox's clock


@dataclass(kw_only=True)
class Progress:
    """The counts that are shown; they add up to `total` at every moment."""

    total: int = 0
    reused: int = 0  # found done at the start; counted under their state too
    states: dict[str, int] = field(default_factory=dict)
    slots: dict[str, Running] = field(default_factory=dict)
    began: float = 0.0
    counted: float = 0.0  # when the ledger last counted all cells, on the inbox's clock
    tokens: Counter[str] = field(default_factory=Counter)  # prompt, completion: in this run
    used: UsageTotal = field(default_factory=UsageTotal)  # by the attempts that this run ended
    eta: Eta | None = None  # None while no time is known
    # hosts that are away and may come: since when, on the inbox's clock
    awaited: Mapping[str, float] = field(default_factory=dict)
    _of: dict[str, str] = field(default_factory=dict, repr=False)  # each cell as it is counted

    @property
    def ended(self) -> int:
        return sum(
            self.states.get(s, 0) for s in ("success", "partial", "failed", "skipped", "cancelled")
        )

    @property
    def all_ended(self) -> bool:
        """Whether no cell is left."""
        return self.ended >= self.total

    def recount(self, cells: Iterable[tuple[str, str]]) -> None:
        """Take the state of every cell, by fingerprint, as it is now."""
        self._of = dict(cells)
        self.states.clear()
        self.states.update(Counter(self._of.values()))

    def move(self, cell: str, new: str) -> None:
        """A cell came to another state; where a recount saw that first, nothing changes. Nor is
        one counted that was given up."""
        if (old := self._of.get(cell)) is None:
            return
        self._of[cell] = new
        self.states[old] -= 1
        self.states[new] = self.states.get(new, 0) + 1

    def is_open(self, cell: str) -> bool:
        """Whether the cell was pending or running when it was counted last, or is not known."""
        return self._of.get(cell, "pending") in ("pending", "running")

    def is_waiting(self, cell: str) -> bool:
        """Whether the cell was pending when it was counted last, or is not known."""
        return self._of.get(cell, "pending") == "pending"

    @property
    def share(self) -> float:
        """The completed share of the run, from 0 to 1; a running cell counts by its samples."""
        running = [slot for slot in list(self.slots.values()) if slot.cell and slot.total]
        samples = sum(min(slot.done / slot.total, 1.0) for slot in running)
        return min((self.ended + samples) / self.total, 1.0) if self.total else 1.0

    def seconds_left(self, now: float) -> float | None:
        """How long the run should still take: before its first cell ends by the samples, then by
        `eta`; None while nobody knows, and once that time is over."""
        if self.eta is not None:
            remaining: float | None = self.eta.seconds - (now - self.eta.at)
        else:
            remaining = self._seconds_by_samples(now)
        return remaining if remaining is not None and remaining >= _LEAST_S else None

    def _seconds_by_samples(self, now: float) -> float | None:
        """As if all cells took as long as the running ones will; None before their samples."""
        slots = [slot for slot in list(self.slots.values()) if slot.cell]
        timed = [(one, s) for one in slots if (s := one.seconds_per_sample(now)) is not None]
        if not timed:
            return None
        cell_s = sum(seconds * slot.total for slot, seconds in timed) / len(timed)
        waiting = self.total * (1 - self.share)  # cells
        ends = (seconds * (slot.total - slot.done) for slot, seconds in timed)
        return max(cell_s * waiting / len(slots), *ends)

    def snapshot(self, runner: str, now: float) -> WorkerProgress:
        """What the runner does, as others see it."""
        slots = tuple(slot.snapshot(now) for slot in list(self.slots.values()))
        return WorkerProgress(
            runner=runner, slots=slots, eta=self.seconds_left(now), clock=time.time()
        )


Observer = Callable[[Notice, Progress], None]
