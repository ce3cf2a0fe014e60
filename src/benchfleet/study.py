"""A campaign with its results folder and its ledger."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from benchfleet.campaign.base import Campaign
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.campaign_record import CAMPAIGN_RECORDED, newest_record
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.host_filter import filter_for_host
from benchfleet.domain.notification import SUBJECT
from benchfleet.domain.phase import GATE_EVENTS, GateDecision, newest_decisions
from benchfleet.domain.plan import ASSIGNED, Plan, forms, plans
from benchfleet.domain.race import RACE_EVENTS, RaceHistory
from benchfleet.domain.rental import RentalCost
from benchfleet.domain.usage import UsageTotal
from benchfleet.domain.versions import mark_versions
from benchfleet.environment import (
    NO_CACHE,
    RESULT_CACHE,
    host_name,
    lease_seconds,
    result_cache_url,
)
from benchfleet.errors import BenchfleetError, LedgerError, PluginError, ResultsError
from benchfleet.ledger.addresses import default_lease
from benchfleet.ledger.base import DEFAULT_LEASE_S, Ledger
from benchfleet.ledger.gates import PhaseStatus, phase_statuses
from benchfleet.ledger.history import BILLED, bill
from benchfleet.ledger.spending import read_bills, read_rental_costs
from benchfleet.ledger_location import LedgerLocation
from benchfleet.results.layout import Layout
from benchfleet.results.read import left_attempts, sealed_attempts, too_late
from benchfleet.results.stores.base import ResultStore, open_store

if TYPE_CHECKING:
    from benchfleet.results.cache import ResultCache

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Study:
    """A campaign with its folder and its ledger's address."""

    campaign: Campaign
    layout: Layout
    url: str  # of the ledger; "" for the embedded one in the results folder
    lease: float = DEFAULT_LEASE_S  # seconds; renewed every fifth of it

    @property
    def host(self) -> str:
        """The name of this host in results. Raises BenchfleetError for an invalid name."""
        try:
            return host_name(self.campaign.folder)
        except ValueError as error:
            raise BenchfleetError(str(error)) from error

    @property
    def home(self) -> LedgerLocation:
        """Where its ledger is kept."""
        return LedgerLocation(
            campaign=self.campaign, layout=self.layout, url=self.url, lease=self.lease
        )

    @property
    def ledger_text(self) -> str:
        """The ledger's address without secrets."""
        return self.home.label

    def open_ledger(self, *, known_results: bool = False) -> Ledger:
        """Open the ledger, making it where there is none yet; see `LedgerLocation.open`."""
        return self.home.open(known_results=known_results)

    def open_existing_ledger(self, *, writes: bool = False) -> Ledger | None:
        """Open the ledger if it exists; None before the first run. See
        `LedgerLocation.open_existing`."""
        return self.home.open_existing(writes=writes)

    def query(self, read: Callable[[Ledger], T], *, default: T) -> T:
        """Call `read` with the open ledger; return `default` where no ledger exists."""
        ledger = self.open_existing_ledger()
        if ledger is None:
            return default
        with closing(ledger):
            return read(ledger)

    def records(self, cells: Iterable[Cell]) -> list[CellRecord]:
        """The cells as the ledger has them, in their order; empty where nothing was run yet."""
        order = [cell.fingerprint for cell in cells]
        return self.query(
            lambda ledger: in_order(ledger.cells(fingerprints=set(order)), order), default=[]
        )

    def has_ledger(self) -> bool:
        """Whether the campaign has a ledger."""
        return self.query(lambda ledger: True, default=False)

    def bills(self, records: Iterable[CellRecord]) -> dict[str, UsageTotal]:
        """What the attempts of these cells used up, by fingerprint."""
        return self.query(lambda ledger: read_bills(ledger, records), default={})

    def bill(self, cells: Iterable[Cell]) -> UsageTotal:
        """What the attempts of these cells used up together."""
        among = {cell.fingerprint for cell in cells}
        return self.query(
            lambda ledger: bill(ledger.events(kinds=BILLED), among), default=UsageTotal()
        )

    def rental_costs(self) -> tuple[RentalCost, ...]:
        """What its rented machines cost until now, by currency."""
        nothing: tuple[RentalCost, ...] = ()
        now = time.time()
        return self.query(lambda ledger: read_rental_costs(ledger, now), default=nothing)

    def record_campaign(self, ledger: Ledger) -> None:
        """Record what workers without the campaign's file need, if it is not in the ledger yet."""
        record = self.campaign.record
        if record is not None and newest_record(ledger.events(kinds={CAMPAIGN_RECORDED})) != record:
            ledger.record(record.event())

    def cells(self) -> list[Cell]:
        """Every cell of the campaign: from its file, in the planned variants, or else from the
        ledger."""
        if self.campaign.file is not None:
            matrix = self.campaign.matrix
            return matrix.expand_as(self.forms()) if matrix.has_variants else matrix.expand()
        return self.query(
            lambda ledger: [one.cell for one in ledger.cells(with_cell=True) if one.cell],
            default=[],
        )

    def marked(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """These cells under the names that results have. Without the file, each version of a model
        or config has its own; what chooses cells by name means all versions."""
        return cells if self.campaign.file is not None else mark_versions(cells)

    def forms(self) -> dict[str, str]:
        """The planned variant of each assigned cell, both by fingerprint; {} without a ledger."""
        try:
            return self.query(
                lambda ledger: forms(plans(ledger.events(kinds={ASSIGNED}))), default={}
            )
        except LedgerError:
            return {}

    def record_forms(self, chosen: Mapping[str, str]) -> None:
        """Record the variant of each of these cells if it changed."""
        if not self.campaign.matrix.has_variants:
            return
        recorded = self.forms()
        if all(recorded.get(one, one) == form for one, form in chosen.items()):
            return
        with closing(self.open_ledger()) as ledger:
            earlier = plans(ledger.events(kinds={ASSIGNED}))
            number = earlier[-1].number + 1 if earlier else 1
            ledger.record(Plan(number=number, forms=chosen).event())

    def gates(self) -> dict[str, GateDecision]:
        """The newest decision on the gate of each phase that has one."""
        if not self.campaign.phases:
            return {}
        return self.query(
            lambda ledger: newest_decisions(ledger.events(kinds=GATE_EVENTS)), default={}
        )

    def race(self, ledger: Ledger | None = None) -> RaceHistory:
        """What races of the campaign stopped, by this open ledger, or else by its own."""
        if ledger is not None:
            return RaceHistory.of(ledger.events(kinds=RACE_EVENTS))
        return self.query(self.race, default=RaceHistory())

    def phases(self, cells: Iterable[Cell], records: Iterable[CellRecord]) -> list[PhaseStatus]:
        """How each phase stands over these cells."""
        if not self.campaign.phases:
            return []
        return phase_statuses(self.campaign.phases, cells, records, self.gates())

    def allowed_here(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that the campaign allows on this host."""
        if not self.campaign.runners:
            return list(cells)
        allowed = filter_for_host(self.host, self.campaign.runners)
        return [cell for cell in cells if allowed.takes(cell)]

    def mark_reported(self) -> int:
        """Record that this host reports the results; return the event's number."""
        with closing(self.open_ledger()) as ledger:
            return ledger.record(Event(kind="results_told"))

    def is_summary_current(self) -> bool:
        """Whether summary and report are newer than the campaign's file and the ledger's last
        event. A run that was killed leaves older ones."""
        if self.campaign.file is None:
            return False
        try:
            if self.layout.report.stat().st_mtime <= self.campaign.file.stat().st_mtime:
                return False
            event_number = int(json.loads(self.layout.summary.read_bytes())["last_event"])
        except (OSError, ValueError, LookupError, TypeError):
            return False

        def read(ledger: Ledger) -> bool:
            return all(event.fingerprint == SUBJECT for event in ledger.events(event_number))

        return self.query(read, default=False)

    def finished_records(self, cells: Iterable[Cell]) -> list[CellRecord] | None:
        """The records of done cells, if these are all but those that a race stopped, and no result
        waits to be published; None where a run has something to do."""
        ledger = self.open_existing_ledger()
        if ledger is None:
            return None
        among = {cell.fingerprint for cell in cells}
        records, stopped = [], 0
        with closing(ledger):
            history = self.race(ledger)
            for record in ledger.cells(fingerprints=among):
                if history.is_stopped(record):
                    stopped += 1
                elif record.state != "success":
                    return None
                else:
                    records.append(record)
        if len(records) + stopped < len(among) or sealed_attempts(self.layout):
            return None
        late = too_late(self.layout, left_attempts(self.layout, among), records)
        return None if late else records

    def result_store(self) -> ResultStore | None:
        """The store that the campaign names, or None. Raises UnknownName, MissingExtra or
        ResultsError."""
        url = self.campaign.store_url
        return open_store(url, self.campaign.name) if url else None

    @property
    def result_cache_url(self) -> str:
        """The result cache that the campaign names, or else the environment; "" for none. Raises
        BenchfleetError for an invalid environment."""
        try:
            url = self.campaign.result_cache or result_cache_url(os.environ)
        except ValueError as error:
            raise BenchfleetError(str(error)) from error
        return "" if url == NO_CACHE else url

    def result_cache(self) -> ResultCache | None:
        """The result cache, or None. Raises BenchfleetError for a wrong address."""
        if not (url := self.result_cache_url):
            return None
        from benchfleet.results.cache import open_cache  # which most runs do without

        try:
            return open_cache(url)
        except (PluginError, ResultsError) as error:
            key = "result_cache" if self.campaign.result_cache else RESULT_CACHE
            raise BenchfleetError(f"{key} {url}: {error}") from error


def in_order(records: Iterable[CellRecord], order: Iterable[str]) -> list[CellRecord]:
    """Records in the order of these fingerprints; a ledger has them in that of enrolment. Others
    come last."""
    positions = {name: number for number, name in enumerate(order)}
    return sorted(records, key=lambda one: positions.get(str(one.fingerprint), len(positions)))


def open_study(campaign: Campaign, *, ledger: str = "") -> Study:
    """Tie a campaign to its folder and its ledger. Raises LedgerError for a wrong lease."""
    try:
        lease = lease_seconds(os.environ) or default_lease(ledger)
    except ValueError as error:
        raise LedgerError(str(error)) from error
    return Study(campaign=campaign, layout=Layout(campaign.results), url=ledger, lease=lease)
