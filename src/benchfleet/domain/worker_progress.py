"""What runners do now, as others see it in the ledger, and how far a campaign is by that."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from .event import Event
from .humanize import duration

MAX_PROGRESS_BYTES = 16_384  # of one report
_MAX_REPORTED_SLOTS = 64
MAX_CLOCK_DIFFERENCE_S = 60.0  # between two machines, that nobody needs to know


@dataclass(frozen=True, kw_only=True)
class SlotProgress:
    """What one slot does."""

    devices: str = ""  # gpu:0 or gpu:0+1
    cell: str = ""  # its results path; "" while the slot starts or idles
    stage: str = ""  # starting, idle, load, benchmark
    done: int = 0  # samples
    total: int = 0  # samples; 0 while that is not known
    seconds: float = 0.0  # since the cell began
    tokens_per_second: float | None = None
    memory: int | None = None  # bytes: of its fullest GPU, else of RAM
    memory_total: int | None = None  # bytes of that GPU; None for RAM

    @property
    def share(self) -> float:
        """The completed share of the cell, from 0 to 1."""
        return min(self.done / self.total, 1.0) if self.cell and self.total else 0.0


@dataclass(frozen=True, kw_only=True)
class WorkerProgress:
    """What all slots of one runner do."""

    runner: str
    slots: tuple[SlotProgress, ...] = ()
    more_slots: int = 0  # slots that are left out
    eta: float | None = None  # seconds that its run should still take
    age: float = 0.0  # seconds since it was reported; set by the ledger
    clock: float | None = None  # seconds since the epoch by its machine's clock, when reported

    def clock_ahead(self, now: float) -> float:
        """Seconds by which the clock of its machine is ahead of ours, negative if it is behind; 0
        where they agree or that is not known. `now` is the time by ours at which `age` is true."""
        ahead = self.clock + self.age - now if self.clock is not None else 0.0
        return ahead if abs(ahead) > MAX_CLOCK_DIFFERENCE_S else 0.0

    def to_json(self) -> str:
        """At most `MAX_PROGRESS_BYTES`; slots beyond that are left out and counted."""
        count = min(len(self.slots), _MAX_REPORTED_SLOTS)
        while True:
            left_out = len(self.slots) - count + self.more_slots
            report = replace(self, slots=self.slots[:count], more_slots=left_out)
            values = asdict(report)
            del values["runner"], values["age"]
            text = json.dumps(values)
            if len(text) <= MAX_PROGRESS_BYTES or not count:
                return text
            count //= 2

    @classmethod
    def from_json(cls, runner: str, text: str, age: float) -> WorkerProgress | None:
        """The report in the text of another host; None where it is invalid."""
        try:
            values = json.loads(text)
            slots = values["slots"][:_MAX_REPORTED_SLOTS]
            return cls(
                runner=runner,
                slots=tuple(_slot(slot) for slot in slots),
                more_slots=int(_number(values["more_slots"])),
                eta=None if values["eta"] is None else _number(values["eta"]),
                age=max(0.0, age),
                clock=None if values.get("clock") is None else _number(values["clock"]),
            )
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None


def aged(reports: Iterable[WorkerProgress], seconds: float) -> list[WorkerProgress]:
    """The reports as they are after some more seconds."""
    return [replace(report, age=report.age + seconds) for report in reports]


def clock_text(ahead: float, other: str) -> str:
    """``5 min 00 s ahead of this machine's``, or ``behind this machine's``."""
    return f"{duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} {other}"


def with_local_reports(
    reports: Sequence[WorkerProgress],
    local: Sequence[WorkerProgress],
    runners: Mapping[str, Event],
    machine: str,
) -> list[WorkerProgress]:
    """The reports of the ledger, with those of runs on this machine in place of the same runners':
    these are newer. `runners` are the events by which runners began, by id."""
    by_process = {
        (str(event.data.get("machine")), str(event.data.get("process", "")).partition("@")[0]): name
        for name, event in runners.items()
    }
    newer = {}
    for report in local:
        process = report.runner.rpartition("-")[2]  # the name of a run ends with its process
        name = by_process.get((machine, process), report.runner)
        newer[name] = replace(report, runner=name)
    return [*newer.values(), *(one for one in reports if one.runner not in newer)]


def eta_of(reports: Iterable[WorkerProgress], runners: Collection[str]) -> float | None:
    """Seconds that the runs of these runners should still take, which hold cells by leases that
    last; None where no report knows, or the time is over."""
    etas = [
        one.eta - one.age
        for one in reports
        if one.eta is not None and one.eta > one.age and one.runner in runners
    ]
    return max(etas, default=None)


def completed_share(total: int, ended: float, running: Iterable[float]) -> float:
    """The completed share of all cells, from 0 to 1: those that ended, and for each running one
    the completed share of it."""
    return min((ended + sum(running)) / total, 1.0) if total else 1.0


def _slot(values: Mapping[str, Any]) -> SlotProgress:
    """Each field a text, or a number that is finite and not negative."""
    checked: dict[str, Any] = {}
    for field in fields(SlotProgress):
        value = values[field.name]
        if isinstance(field.default, str):
            checked[field.name] = str(value)
        elif value is not None or field.default is not None:
            checked[field.name] = _number(value)
    return SlotProgress(**checked)


def _number(value: Any) -> Any:
    if type(value) not in (int, float) or not math.isfinite(value) or not 0 <= value < 1e18:
        raise ValueError(f"invalid number {value!r:.60}")
    return value
