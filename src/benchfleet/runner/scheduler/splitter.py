"""Splits large cells into parts that several slots run at once, and follows the splits of others.

`domain/part.py` says what a split is. A cell with ``split: N`` is split when it is claimed first.
One with ``split: auto`` is split when slots would otherwise be out of work before it ends, and
while it runs too: then it stops after the sample at hand.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.domain.attempt import CellRecord, Claim, Lease
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.part import AUTO_SPLIT, FOLLOWED, SPLIT, Split, Splits, parts_that_pay
from benchfleet.domain.state import FINAL_STATES
from benchfleet.errors import LedgerAway, LedgerFull, PluginError
from benchfleet.results.samples import earlier_indices
from benchfleet.runner.attempt.joined import Joined, join, part_result
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.resources.shapes import Pool, slots_for
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.backlog import Backlog
from benchfleet.runner.scheduler.time_left import seconds_left

SplitDecision = Literal["begin", "split", "later"]
PARTS_EVERY_S = 1.0, 10.0  # seconds between two looks for the results of parts: first, at most
PARTS_TIMEOUT_S = 600.0  # seconds, after which samples that are not here are asked again
MIN_SAMPLES = 3  # of a running cell, before the time that it should still take is known


def splits(cell: Cell) -> bool:
    """Whether the cell may be split."""
    if cell.split == 1 or cell.part is not None:
        return False
    with contextlib.suppress(PluginError, ImportError):  # it cannot run here either
        return benchmark_class(cell.workload.benchmark).splits
    return False


class Splitter:
    """Knows the splits of the cells of one runner, and makes new ones."""

    def __init__(
        self,
        context: RunnerContext,
        cells: Mapping[str, Cell],
        slots: Slots,
        backlog: Backlog,
        *,
        pools: Callable[[], Sequence[Pool]],
        fetch: Callable[[Sequence[CellRecord]], None],
        was_split: Callable[[str, int], None],
        add_cells: Callable[[Sequence[Cell]], object],
        changed: Callable[[], None],
    ) -> None:
        """`fetch` brings results of other hosts into this folder. `was_split` gets the path of a
        cell and how many parts it has now. `add_cells` adds parts to what the runner is about.
        `changed` is called if other whole cells wait for their parts than before."""
        self._ledger, self._heartbeat = context.ledger, context.heartbeat
        self._engine, self._now = context.engine, context.inbox.now
        self._cells, self._slots, self._backlog = cells, slots, backlog
        self._layout, self._fetch, self._was_split = context.layout, fetch, was_split
        self._pools, self._add_cells, self._changed = pools, add_cells, changed
        self._splits = Splits()
        self._parts: dict[str, dict[str, Cell]] = {}  # of each split cell, by fingerprint
        self._unfinished: dict[str, set[str]] = {}  # parts that have not ended, by whole cell
        self._whole_of: dict[str, str] = {}  # the whole cell of each part
        self._new: list[Split] = []  # whose parts are not added yet
        self._needless: list[str] = []  # parts that had not ended when their cell did
        self._stopping: dict[str, int] = {}  # samples in all, by cell that is to be split
        self._awaited: dict[str, float] = {}  # since when results of parts are, by whole cell
        self._joined: dict[str, Joined] = {}  # of claimed cells that are about to begin

    # Following

    def load(self) -> None:
        """Read the splits in force from the ledger."""
        if names := {event.fingerprint for event in self._ledger.events(kinds={SPLIT})}:
            self.follow(self._ledger.events(fingerprints=names, kinds=FOLLOWED))
        self.update()

    def follow(self, events: Iterable[Event]) -> None:
        """Take in what any runner or person did."""
        for event in events:
            if event.kind not in FOLLOWED:
                continue
            before = self._splits.current.get(event.fingerprint)
            self._new += self._splits.follow([event])
            if before is not None and event.fingerprint not in self._splits.current:
                self._forget(event.fingerprint)
            whole = self._whole_of.get(event.fingerprint)
            if whole is not None and _ends(event):
                self._unfinished.get(whole, set()).discard(event.fingerprint)
                self._changed()

    def _forget(self, whole: str) -> None:
        """The whole cell has ended, so nobody needs what is left of its parts."""
        self._new = [split for split in self._new if split.fingerprint != whole]
        parts = self._parts.pop(whole, {})
        self._needless += self._unfinished.pop(whole, ())
        for part in parts:
            self._whole_of.pop(part, None)
        self._changed()

    def update(self) -> None:
        """Enroll the parts of new splits, add them to what the runner is about, and cancel parts
        that nobody needs any more. Several runners may do so. If the ledger is away, it is done at
        a later look."""
        with contextlib.suppress(LedgerAway, LedgerFull):
            self._add_new()
            if self._needless:
                active = self._ledger.cells(
                    states=["pending", "running"], fingerprints=self._needless
                )
                for record in active:
                    data = {"by": "the end of its cell"}
                    self._ledger.record(
                        Event(kind="cancel_asked", fingerprint=record.fingerprint, data=data)
                    )
                self._needless.clear()

    def _add_new(self) -> None:
        while self._new:
            split = self._new[0]
            if (whole := self._cells.get(split.fingerprint)) is not None:
                self._add(split, whole)
            self._new.pop(0)

    def _add(self, split: Split, whole: Cell) -> None:
        parts = {str(part.fingerprint): part for part in split.cells(whole)}
        self._ledger.enroll(parts.values())
        records = self._ledger.cells(fingerprints=parts)
        self._parts[split.fingerprint] = parts
        self._whole_of.update(dict.fromkeys(parts, split.fingerprint))
        ended = {record.fingerprint for record in records if record.state in FINAL_STATES}
        self._unfinished[split.fingerprint] = parts.keys() - ended
        self._add_cells(list(parts.values()))
        self._changed()

    @property
    def waiting(self) -> frozenset[str]:
        """The whole cells that wait for their parts."""
        return frozenset(whole for whole, parts in self._unfinished.items() if parts)

    # Joining

    def joined(self, claim: Claim) -> Joined | None:
        """What the parts of a claimed cell recorded; None if it is not split."""
        return self._joined.pop(claim.lease.fingerprint, None)

    def _join(self, whole: str) -> bool:
        """Join the parts of a cell; False while results are still on their way from other hosts."""
        records = list(self._ledger.cells(fingerprints=self._parts[whole]))
        if missing := self._missing(records):
            self._fetch(missing)
            missing = self._missing(records)
        since = self._awaited.setdefault(whole, self._now())
        if missing and self._now() - since < PARTS_TIMEOUT_S:
            return False
        # Earlier splits, after which an attempt at the whole failed, left results of parts too.
        split_events = self._ledger.events(fingerprints={whole}, kinds={SPLIT})
        ever = {part for event in split_events for part in event.data["parts"]}
        paths = [record.path for record in self._ledger.cells(fingerprints=ever)]
        self._joined[whole] = replace(join(self._layout, records), paths=paths)
        return True

    def _missing(self, parts: Sequence[CellRecord]) -> list[CellRecord]:
        return [
            record
            for record in parts
            if record.state == "success" and part_result(self._layout, record) is None
        ]

    # Splitting

    def decide(self, claim: Claim) -> SplitDecision:
        """Whether a cell that was just claimed begins; it is split if that pays. Unless the
        decision is ``begin``, its lease is released. ``split``: its parts can be claimed instead.
        ``later``: its parts, or their results, are not there yet."""
        try:
            return self._decide(claim)
        except (LedgerAway, LedgerFull):
            self._give_back(claim.lease, "the ledger does not answer", retry_in=1.0)
            return "later"

    def _decide(self, claim: Claim) -> SplitDecision:
        lease, whole = claim.lease, self._cells[claim.lease.fingerprint]
        samples = self._stopping.pop(lease.fingerprint, 0)
        if lease.attempt > 1 and lease.fingerprint not in self._parts:
            # Another runner may have split it since the feed was read.
            self.follow(self._ledger.events(fingerprints={lease.fingerprint}, kinds=FOLLOWED))
            self._add_new()
        if lease.fingerprint in self.waiting:
            self._give_back(lease, "its parts have not ended")
            return "later"
        if lease.fingerprint in self._parts:
            if self._join(lease.fingerprint):
                return "begin"
            reason = "results of its parts are not here yet"
            waited, (least, most) = self._now() - self._awaited[lease.fingerprint], PARTS_EVERY_S
            self._give_back(lease, reason, retry_in=min(max(least, waited), most))
            return "later"
        if not splits(whole) or (count := self._count(whole, samples)) < 2:
            return "begin"
        name = lease.fingerprint, lease.attempt, lease.token
        split = Split.evenly(*name, count)
        if samples:
            split = Split.of_rest(
                *name,
                count,
                samples=samples,
                recorded=earlier_indices(self._layout.attempts_of(lease.fingerprint)),
                draws=whole.workload.samples_per_question,
            )
        count = len(split.cuts) - 1
        if count < 2:
            return "begin"
        self._ledger.record(split.event(split.cells(whole)))
        self._give_back(lease, f"it was split into {count} parts")
        self._splits.current[lease.fingerprint] = split
        self._was_split(claim.path, count)
        self._new.append(split)
        self.update()  # at a later look if the ledger is away by now
        return "split"

    def _give_back(self, lease: Lease, reason: str, *, retry_in: float | None = None) -> None:
        self._heartbeat.drop(lease)
        self._ledger.release([lease], reason)
        if retry_in is not None:
            self._backlog.mark_waiting(lease.fingerprint, until=self._now() + retry_in)

    def _count(self, cell: Cell, samples: int) -> int:
        if cell.split != AUTO_SPLIT:
            return min(cell.split, cell.workload.limit or cell.split)
        if samples:  # it was stopped for that
            return self._slots_for(cell)
        seconds = self._backlog.estimates.expected(str(cell.fingerprint))
        if seconds is None:
            return 1
        return self._auto(cell, seconds + self._backlog.estimates.load(cell.model.name))

    def _slots_for(self, cell: Cell) -> int:
        """How many slots can work on parts of the cell at once; 1 if it asks a server elsewhere,
        which gets several requests of one slot at a time."""
        return 1 if cell.need.endpoint else slots_for(cell.need, self._pools())

    def _auto(self, cell: Cell, seconds: float) -> int:
        """How many parts pay for a cell that should still take so long."""
        others = self._backlog.remaining(cell.need.endpoint).seconds
        for slot in self._slots.busy:
            if (attempt := slot.attempt) is None:
                continue
            other = attempt.claim.cell
            if other.fingerprint != cell.fingerprint and other.need.gpus >= cell.need.gpus:
                others += seconds_left(slot, self._backlog.estimates, self._now()) or 0.0
        return parts_that_pay(
            seconds,
            slots=self._slots_for(cell),
            load=self._backlog.estimates.load(cell.model.name),
            others=others,
        )

    def look(self) -> None:
        """Stop a running cell that is to be split, if slots are out of work."""
        if self._backlog.lanes() or not (self._slots.any_idle or not self._slots.allocator.full):
            return
        for slot in self._slots.busy:
            if self._pays(slot) and slot.attempt is not None:
                attempt, total = slot.attempt, slot.display.total
                self._stopping[attempt.claim.lease.fingerprint] = total
                self._engine.stop(slot.id, attempt.key)

    def _pays(self, slot: Slot) -> bool:
        attempt, total = slot.attempt, slot.display.total
        if attempt is None or attempt.cancelled or attempt.stage != "benchmark":
            return False
        fingerprint = attempt.claim.lease.fingerprint
        cell = self._cells.get(fingerprint)
        new = attempt.done - attempt.before
        if cell is None or cell.split != AUTO_SPLIT or not splits(cell):
            return False
        if fingerprint in self._stopping or fingerprint in self._parts or new < MIN_SAMPLES:
            return False
        seconds = (self._now() - attempt.began) / new * (total - attempt.done)
        return total > attempt.done and self._auto(cell, seconds) > 1


def _ends(event: Event) -> bool:
    if event.kind == "finished":
        return event.data["outcome"].get("retry_in") is None
    return event.kind == "cancel_asked"
