"""What a race stopped and saved, as reports say it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.averages import mean
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted, duration
from benchfleet.domain.race import RaceHistory, RaceKey, RaceStop

from .pooling import column_names

MAX_SENTENCES = 5  # of a first screen
_ONCE = ("pull", "load")  # stages of a model, which cells that follow one another share


@dataclass(frozen=True, kw_only=True)
class RaceSaving:
    """A config that a race stopped on a benchmark."""

    stop: RaceStop
    cells: int  # of its repeats that do not run; without those that somebody brought back
    of: int  # repeats
    seconds: float | None  # of slots, for those of them that never began; None: unknown
    names_model: bool = False  # the campaign has several models

    def __str__(self) -> str:
        """``c3 stopped on recall after 150 samples: 12 points lower than dense (…); …``."""
        stop = self.stop
        name = f"{stop.model} / {stop.config}" if self.names_model else stop.config
        saved = f", about {duration(self.seconds)} of slot time saved" if self.seconds else ""
        return (
            f"{name} stopped on {stop.benchmark} after {counted(stop.samples, 'sample')}: "
            f"{stop.finding}; {self.cells} of {counted(self.of, 'repeat')} left out{saved}"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        stop = self.stop.to_dict()
        return {**stop, "saved": self.cells, "of": self.of, "saved_seconds": self.seconds}


def race_savings(
    history: RaceHistory,
    cells: Sequence[Cell],
    records: Sequence[CellRecord],
) -> Iterator[RaceSaving]:
    """What races saved among these cells."""
    if not history.stops:
        return
    columns = column_names(cells)
    record_of = {record.fingerprint: record for record in records}
    members: dict[RaceKey, list[CellRecord]] = {}
    for cell in cells:
        key = cell.model.name, cell.config.name, columns[cell.fingerprint]
        if (record := record_of.get(cell.fingerprint)) is not None:
            members.setdefault(key, []).append(record)
    models = {cell.model.name for cell in cells}
    for key, own in members.items():
        stopped = sum(map(history.is_stopped, own))
        if key not in history.stops or not stopped:
            continue
        unstarted = sum(history.is_stopped(record) and not record.attempt for record in own)
        durations = [
            sum(seconds for stage, seconds in record.outcome.seconds.items() if stage not in _ONCE)
            for record in own
            if record.state == "success" and record.outcome
        ]
        yield RaceSaving(
            stop=history.stops[key],
            cells=stopped,
            of=len(own),
            seconds=unstarted * mean(durations) if durations else None,
            names_model=len(models) > 1,
        )


def saved_texts(savings: Sequence[RaceSaving]) -> list[str]:
    """A sentence for each of the first, and of several what they saved together."""
    texts = [f"Race: {one}." for one in savings[:MAX_SENTENCES]]
    if more := len(savings) - len(texts):
        texts.append(f"The race stopped {more} more; `benchfleet race` lists them.")
    if len(savings) > 1:
        cells = counted(sum(one.cells for one in savings), "cell")
        seconds = sum(one.seconds or 0.0 for one in savings)
        saved = f", about {duration(seconds)} of slot time saved" if seconds else ""
        texts.append(f"In all, the race left out {cells}{saved}.")
    if savings:
        texts.append(
            "The tables' intervals and p-values do not allow for the race's looks. Of a stopped "
            "config, cite the anytime interval."
        )
    return texts
