"""The overview: how far the campaign is, what runs now, what failed last, and what happened."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.views.failures import FailureGroup, failure_groups
from benchfleet.dashboard.views.happened import Notice, notices
from benchfleet.dashboard.views.phases import awaited_gates, phases_of
from benchfleet.dashboard.views.slots import Slot, seconds_left, slots_of
from benchfleet.domain.humanize import counted, duration
from benchfleet.domain.state import FINAL_STATES
from benchfleet.domain.worker_progress import completed_share
from benchfleet.ledger.gates import PhaseStatus

MAX_SLOTS = 40  # of the running ones, on this page
MAX_GROUPS = 5
MAX_NOTICES = 12
_RATE_BUCKETS = 48
_RATE_SPANS_S = (600.0, 3600.0, 6 * 3600.0, 24 * 3600.0)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How many cells ended lately."""

    span_s: float
    ended: Sequence[int]  # in equal parts of the span, the oldest first

    @property
    def per_hour(self) -> float:
        return 3600 * sum(self.ended) / self.span_s


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What the page shows."""

    sentence: str
    counts: dict[str, int]
    total: int
    done: int
    share: float | None  # completed, from 0 to 1; running cells by their samples; None of no cells
    eta: float | None  # seconds
    slots: Sequence[Slot]
    more_slots: int
    failures: Sequence[FailureGroup]
    more_failures: int
    rate: Rate
    phases: Sequence[PhaseStatus]
    notices: Sequence[Notice]
    awaited: str  # which gates all waiting cells wait for; "" where a run may begin some


def overview(model: ReadModel) -> Overview:
    """The overview of a campaign as it is now."""
    with model.lock:
        counts = dict(model.counts)
        slots = slots_of(model)
        eta = seconds_left(model)
        ended_parts = model.split_cells.ended
        groups = failure_groups(model)
        rate = rate_of(model)
        shown_phases, awaited = phases_of(model), awaited_gates(model)
        happened = notices(model, MAX_NOTICES)
    total = sum(counts.values())
    done = sum(counts.get(state, 0) for state in FINAL_STATES)
    running = [slot.share_of_cell for slot in slots]
    share = completed_share(total, done + ended_parts, running) if total else None
    ordered = sorted(slots, key=lambda slot: (slot.row is None, slot.host, slot.devices))
    return Overview(
        sentence=_sentence(counts, total, share, eta),
        counts=counts,
        total=total,
        done=done,
        share=share,
        eta=eta,
        slots=ordered[:MAX_SLOTS],
        more_slots=max(0, len(ordered) - MAX_SLOTS),
        failures=groups[:MAX_GROUPS],
        more_failures=max(0, len(groups) - MAX_GROUPS),
        rate=rate,
        phases=shown_phases,
        notices=happened,
        awaited=awaited,
    )


def rate_of(model: ReadModel) -> Rate:
    """The cells that ended in the shortest span that has them all, a day at most."""
    now = time.time()
    ages = [
        max(0.0, now - row.changed_at)
        for row in model.rows
        if row.changed_at > now - _RATE_SPANS_S[-1] and row.state in FINAL_STATES
    ]
    oldest = max(ages, default=0.0)
    span = next((one for one in _RATE_SPANS_S if oldest <= one), _RATE_SPANS_S[-1])
    counts = [0] * _RATE_BUCKETS
    for age in ages:
        counts[min(_RATE_BUCKETS - 1, int((span - age) / span * _RATE_BUCKETS))] += 1
    return Rate(span_s=span, ended=counts)


def _sentence(counts: dict[str, int], total: int, share: float | None, eta: float | None) -> str:
    """``61 of 128 cells done, 2 failed, 4 running; 51 %, about 3 h 10 min left``"""
    if share is None:
        return "No cells yet"
    failed = counts.get("failed", 0) + counts.get("partial", 0)
    parts = [f"{counts.get('success', 0):,} of {counted(total, 'cell')} done"]
    for count, word in (
        (failed, "failed"),
        (counts.get("running", 0), "running"),
        (counts.get("retrying", 0), "waiting for a retry"),
        (counts.get("cancelled", 0), "cancelled"),
    ):
        if count:
            parts.append(f"{count:,} {word}")
    sentence = ", ".join(parts)
    if not counts.get("running"):
        return sentence
    remaining = f", about {duration(eta)} left" if eta is not None else ""
    return f"{sentence}; {int(100 * share)} %{remaining}"
