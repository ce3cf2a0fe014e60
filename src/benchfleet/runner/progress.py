"""The progress of a run: counts, what each slot does, and the time left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from benchfleet.domain.telemetry import Reading
from benchfleet.domain.usage import UsageTotal

NoticeKind = Literal[
    "run_started",
    "host_ready",
    "host_lost",
    "slot_opening",
    "slot_ready",
    "slot_lost",
    "slots_changed",
    "cell_started",
    "cell_progress",
    "cell_done",
    "cell_failed",
    "cell_released",
    "cell_cancelled",
    "claim_lost",
    "published_late",
    "waiting",
    "gate_decided",
    "kept_off",
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


@dataclass(kw_only=True)
class Running:
    """What one slot does now."""

    slot: str
    devices: str  # gpu:0 or gpu:0+1
    cell: str = ""  # "" while it starts or idles
    stage: str = "starting"  # starting, idle, load, benchmark
    done: int = 0
    total: int = 0
    since: float = 0.0  # when the cell began, on the inbox's clock
    asked_since: float = 0.0  # when its benchmark did
    generated: int = 0  # tokens since then
    reading: Reading | None = None  # the latest of the cell

    def take(self, cell: str, *, done: int, now: float) -> None:
        """A cell begins."""
        self.cell, self.stage, self.done, self.total, self.since = cell, "load", done, 0, now
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
        self.cell, self.stage, self.done, self.total = "", "idle", 0, 0
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
    _of: dict[str, str] = field(default_factory=dict, repr=False)  # each cell as it is counted

    @property
    def ended(self) -> int:
        return sum(
            self.states.get(s, 0) for s in ("success", "partial", "failed", "skipped", "cancelled")
        )

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

    def seconds_left(self, now: float) -> float | None:
        """How long the run should still take; None while nobody knows."""
        if self.eta is None:
            return None
        return max(0.0, self.eta.seconds - (now - self.eta.at))


Observer = Callable[[Notice, Progress], None]
