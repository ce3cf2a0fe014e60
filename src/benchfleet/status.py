"""The status of a campaign: one value that the command line, Python and other views share."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.budget import Budget, Spending
from benchfleet.domain.cell import Cell
from benchfleet.domain.phase import GATE_EVENTS, GateDecision, newest_decisions
from benchfleet.domain.placement import KeptOff, Placement
from benchfleet.domain.rental import Rental, RentalCost
from benchfleet.domain.slots import BEGAN
from benchfleet.domain.state import FINAL_STATES
from benchfleet.domain.usage import UsageTotal
from benchfleet.domain.worker_progress import (
    WorkerProgress,
    completed_share,
    eta_of,
    with_local_reports,
)
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.gates import PhaseStatus, phase_statuses
from benchfleet.ledger.history import BILLED, bill, counts
from benchfleet.ledger.lease_holders import Holder, clocks_ahead, holders, silent_hosts
from benchfleet.ledger.parts import SplitCell, parts_of
from benchfleet.ledger.spending import read_rental_costs, read_rentals, read_spending
from benchfleet.placement_loader import load_placement
from benchfleet.reports.race_savings import RaceSaving, race_savings
from benchfleet.result_locations import ResultLocator
from benchfleet.results.samples import count_samples, earlier_samples
from benchfleet.results.upload_queue import UploadQueue
from benchfleet.runs.follow import local_progress
from benchfleet.runs.process import has_died
from benchfleet.study import Study, in_order


@dataclass(frozen=True, kw_only=True)
class Unpublished:
    """A cell whose sealed result is not at its path yet."""

    path: str
    blocked: bool  # something else lies at that path


@dataclass(frozen=True, kw_only=True)
class Status:
    """How far a campaign is, from its ledger and its results folder."""

    campaign: str
    has_ledger: bool
    counts: Mapping[str, int]  # cells: in "total", and by state
    phases: Sequence[PhaseStatus]
    kept_off: Sequence[KeptOff]
    notes: Sequence[str]  # reports and plans of the ledger that could not be used
    holders: Sequence[Holder]
    share: float  # the completed share of all cells, from 0 to 1; running ones by their samples
    eta: float | None  # seconds that the runs should still take; None where none runs or knows
    # path of a pending cell → samples of its earlier attempts, here
    kept_samples: Mapping[str, int]
    used: UsageTotal
    failed: Sequence[CellRecord]  # failed or partial
    elsewhere: Mapping[str, str]  # path of a cell → the host or store that has its result
    missing: Sequence[str]  # paths of successful cells whose results are nowhere
    unpublished: Sequence[Unpublished]
    unsent: int  # results that wait for their upload
    store: str  # where they are uploaded to; "" for nowhere
    unsent_to_cache: int = 0  # results that wait for their upload to the result cache
    result_cache: str = ""  # its URL
    rented: Sequence[Rental] = ()  # may cost money now; those to be destroyed first
    rentals: Sequence[RentalCost] = ()  # what all of them cost, by currency
    budget: Budget | None = None  # with what was spent of it
    split: Sequence[SplitCell] = ()  # cells that run as parts
    clocks: Mapping[str, float] = field(default_factory=dict)  # host → seconds ahead, if it matters
    silent: Mapping[str, float] = field(default_factory=dict)  # host → for how many seconds
    race: Sequence[RaceSaving] = ()  # what a race stopped; these cells count as skipped

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "campaign": self.campaign,
            **self.counts,
            "phases": [one.to_dict() for one in self.phases],
            "kept_off": [one.to_dict() for one in self.kept_off],
            "holders": [one.to_dict() for one in self.holders],
            "split": [one.to_dict() for one in self.split],
            "share": round(self.share, 4),
            "eta_seconds": self.eta,
            "clocks": dict(self.clocks),
            "silent": dict(self.silent),
            "race": [one.to_dict() for one in self.race],
            "kept_samples": dict(self.kept_samples),
            "used": self.used.to_dict(),
            "budget": self.budget and self.budget.to_dict(),
            "elsewhere": dict(self.elsewhere),
            "unsent": self.unsent,
            "unsent_to_cache": self.unsent_to_cache,
            "rented": [_machine(rental) for rental in self.rented],
            "rentals": [one.to_dict() for one in self.rentals],
            "gone": list(self.missing),
            "unpublished": [one.path for one in self.unpublished],
            "failures": [
                {"cell": record.path, "state": record.state, "reason": record.outcome.why}
                for record in self.failed
                if record.outcome and record.outcome.why
            ],
        }


@dataclass(frozen=True, kw_only=True)
class _LedgerFacts:
    """What the ledger tells; the defaults are those of a campaign without one."""

    has_ledger: bool = False
    records: Sequence[CellRecord] = ()
    decisions: Mapping[str, GateDecision] = field(default_factory=dict)
    holders: Sequence[Holder] = ()
    eta: float | None = None
    clocks: Mapping[str, float] = field(default_factory=dict)
    used: UsageTotal = field(default_factory=UsageTotal)
    placement: Placement = field(default_factory=Placement)
    rented: Sequence[Rental] = ()
    rentals: Sequence[RentalCost] = ()
    split: Sequence[SplitCell] = ()
    part_weights: Mapping[str, float] = field(default_factory=dict)  # of a whole cell, about
    race: Sequence[RaceSaving] = ()


def status_of(study: Study, cells: Sequence[Cell] | None = None) -> Status:
    """The status of these cells of a campaign; of all where None are given."""
    chosen = study.cells() if cells is None else cells
    ledger_facts = study.query(
        lambda ledger: _read_ledger(ledger, study, chosen), default=_LedgerFacts()
    )
    ended = {record.fingerprint for record in ledger_facts.records if record.state != "pending"}
    running = ledger_facts.holders
    states = counts(ledger_facts.records, total=len(chosen))
    where = ResultLocator(study)
    absent = where.absent(ledger_facts.records)
    elsewhere = where.elsewhere(absent)
    return Status(
        campaign=study.campaign.name,
        has_ledger=ledger_facts.has_ledger,
        counts=states,
        phases=phase_statuses(
            study.campaign.phases, chosen, ledger_facts.records, ledger_facts.decisions
        ),
        kept_off=ledger_facts.placement.kept_off(
            cell for cell in chosen if cell.fingerprint not in ended
        ),
        notes=ledger_facts.placement.notes,
        holders=running,
        share=_share(states, ledger_facts),
        eta=ledger_facts.eta,
        kept_samples=_kept_samples(study, ledger_facts.records),
        used=ledger_facts.used,
        failed=[record for record in ledger_facts.records if record.state in ("failed", "partial")],
        elsewhere={r.path: elsewhere[r.fingerprint] for r in absent if r.fingerprint in elsewhere},
        missing=[record.path for record in absent if record.fingerprint not in elsewhere],
        unpublished=[
            Unpublished(
                path=record.path,
                blocked=os.path.lexists(study.layout.published(record.path)),
            )
            for record in where.unpublished(ledger_facts.records)
        ],
        unsent=len(UploadQueue(study.layout.outbox)),
        store=study.campaign.store_url,
        unsent_to_cache=len(UploadQueue(study.layout.cache_outbox)),
        result_cache=study.result_cache_url,
        rented=ledger_facts.rented,
        rentals=ledger_facts.rentals,
        budget=read_budget(study),
        split=ledger_facts.split,
        clocks=ledger_facts.clocks,
        silent=silent_hosts(running, study.lease),
        race=ledger_facts.race,
    )


def read_budget(study: Study) -> Budget | None:
    """The campaign's budget with what was spent of it; None without one."""
    budget = study.campaign.budget
    if budget is None:
        return None
    currency, now = budget.currency, time.time()
    spending = study.query(lambda ledger: read_spending(ledger, currency, now), default=Spending())
    return replace(budget, spending=spending)


def _share(states: Mapping[str, int], facts: _LedgerFacts) -> float:
    ended = sum(states[state] for state in FINAL_STATES)
    ended_parts = sum(one.ended / one.parts for one in facts.split)
    running = [
        one.progress.share * facts.part_weights.get(one.record.fingerprint, 1.0)
        for one in facts.holders
        if one.progress
    ]
    return completed_share(states["total"], ended + ended_parts, running)


def _kept_samples(study: Study, records: Sequence[CellRecord]) -> dict[str, int]:
    begun = [one for one in records if one.state == "pending" and one.attempt]
    folders = {one.path: study.layout.attempts_of(one.fingerprint) for one in begun}
    samples = {path: count_samples(earlier_samples(folder)) for path, folder in folders.items()}
    return {path: count for path, count in samples.items() if count}


def _read_ledger(ledger: Ledger, study: Study, cells: Sequence[Cell]) -> _LedgerFacts:
    campaign = study.campaign
    among = {cell.fingerprint for cell in cells}
    order = [str(cell.fingerprint) for cell in cells]
    records = in_order(ledger.cells(fingerprints=among), order)
    parts = _parts(ledger, {str(name) for name in among})
    active = [one for one in chain(records, *parts.values()) if one.state == "running"]
    reports = _reports(ledger, study) if active else ()
    running = holders(ledger, active, reports)
    paths = {str(record.fingerprint): record.path for record in records}
    records = [
        replace(record, state="running") if _runs(parts.get(record.fingerprint, ())) else record
        for record in records
    ]
    history = study.race(ledger)
    return _LedgerFacts(
        has_ledger=True,
        records=history.as_skipped(records),
        race=list(race_savings(history, study.marked(cells), records)),
        decisions=newest_decisions(ledger.events(kinds=GATE_EVENTS)) if campaign.phases else {},
        holders=running,
        eta=eta_of(reports, {one.record.runner for one in running if one.lease_lasts}),
        clocks=clocks_ahead(running, reports),
        used=bill(ledger.events(kinds=BILLED), among),
        placement=load_placement(campaign, ledger),
        rented=_rented(ledger),
        rentals=read_rental_costs(ledger, time.time()),
        split=[
            SplitCell(
                path=paths[whole],
                ended=sum(part.state in FINAL_STATES for part in records_of_parts),
                parts=len(records_of_parts),
            )
            for whole, records_of_parts in parts.items()
        ],
        part_weights={
            part.fingerprint: 1.0 / len(records_of_parts)
            for records_of_parts in parts.values()
            for part in records_of_parts
        },
    )


def _reports(ledger: Ledger, study: Study) -> Sequence[WorkerProgress]:
    began = {event.data["runner"]: event for event in ledger.events(kinds={BEGAN})}
    local = local_progress(study)
    return with_local_reports(ledger.progress(), local, began, socket.gethostname())


def _parts(ledger: Ledger, among: Collection[str]) -> dict[str, list[CellRecord]]:
    """The parts of cells that are split now, by the whole cell."""
    return {
        whole: records
        for whole, parts in parts_of(ledger, among).items()
        if (records := list(ledger.cells(fingerprints=parts)))
    }


def _runs(parts: Sequence[CellRecord]) -> bool:
    """Whether a cell with these parts runs."""
    return any(part.state == "running" for part in parts)


def _rented(ledger: Ledger) -> list[Rental]:
    history = read_rentals(ledger)
    return sorted(history.open, key=lambda rental: rental.state != "returning")


def _machine(rental: Rental) -> dict[str, Any]:
    return {
        "name": rental.host,
        "state": rental.state,
        "provider": rental.account.provider,
        "instance": rental.instance,
        "price_per_hour": rental.hourly / 1e6,
        "currency": rental.currency,
        "owner": rental.owner,
        "owner_died": has_died(rental.process),
    }
