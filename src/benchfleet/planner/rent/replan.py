"""Plans again during a run: durations are learned, machines fail, and money is spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from benchfleet.domain.cell import Cell
from benchfleet.domain.rent import RentEntry
from benchfleet.ledger.base import Ledger
from benchfleet.planner.rent.build import Market, build
from benchfleet.planner.rent.choose import NoPlan, as_many, cheapest, quickest
from benchfleet.providers.base import GpuOffer
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.scheduler.duration_model import DurationModel

_DONE = ("success", "skipped")


@dataclass(frozen=True, kw_only=True)
class Replanner:
    """How many machines of each entry end what is left in time; if none do, as many as may be.
    Without a deadline: how many end it soonest within what is left of the budget."""

    cells: Sequence[Cell]
    entries: Sequence[RentEntry]  # as the inventory has them
    end: float | None = None  # the deadline, by the clock that `now` is of
    pool: Pool | None = None
    hosts: Sequence[str] = ()

    def __call__(
        self,
        ledger: Ledger,
        offers_of: Callable[[RentEntry], Sequence[GpuOffer]],
        now: float,
        budget: int | None = None,
    ) -> Mapping[str, int]:
        """Machines by entry. `offers_of`: what is rented of an entry, then what is offered.
        `budget`: what is left of it, in millionths. Raises LedgerUnreachable."""
        records = list(ledger.cells(with_cell=True))
        done = {record.fingerprint for record in records if record.state in _DONE}
        remaining = [cell for cell in self.cells if cell.fingerprint not in done]
        times = DurationModel(
            (record.cell, record.outcome) for record in records if record.cell and record.outcome
        )
        markets = [Market(entry=one, offers=tuple(offers_of(one))) for one in self.entries]
        problem = build(remaining, times, markets, pool=self.pool, hosts=self.hosts).problem
        if not problem.groups:
            return {}
        if self.end is None:
            try:
                return quickest(problem, budget or 0).counts
            except NoPlan:  # what is agreed goes on, until the budget is spent
                return {}
        with suppress(NoPlan):
            return cheapest(problem, max(1.0, self.end - now)).counts
        return as_many(problem).counts
