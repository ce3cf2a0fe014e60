"""The rows of running cells with where they run now, for how long, and how far they are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.views.slots import Slot, silence_of, slots_of


def running_rows(model: ReadModel) -> dict[int, Row]:
    """Copies of the rows of running cells, by position, with what their slots do in place of what
    the last attempt left; the lock of the model is held."""
    if not model.running:
        return {}
    slots: dict[int, list[Slot]] = {}
    for slot in slots_of(model):
        if slot.row is not None:
            slots.setdefault(slot.row.index, []).append(slot)
    return {row.index: _running(row, slots.get(row.index, ())) for row in model.running.values()}


def rows_now(model: ReadModel) -> list[Row]:
    """All rows, those of running cells as above; the lock of the model is held."""
    rows = list(model.rows)
    for index, row in running_rows(model).items():
        rows[index] = row
    return rows


def _running(row: Row, slots: Sequence[Slot]) -> Row:
    hosts = tuple(sorted({slot.host for slot in slots} - {""}))
    seconds = max((slot.seconds for slot in slots), default=0.0)
    if not seconds and row.changed_at:  # its runner has not reported it yet
        seconds = max(0.0, time.time() - row.changed_at)
    return replace(
        row,
        host=", ".join(hosts),
        hosts=hosts,
        device=slots[0].devices if len(slots) == 1 else "",
        samples=sum(slot.done for slot in slots),
        seconds=seconds,
        silent_seconds=silence_of(slots),
    )
