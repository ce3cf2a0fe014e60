"""A campaign tied to its results folder and its ledger: all that looking at it needs."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from benchfleet import registry
from benchfleet.campaign.base import Campaign
from benchfleet.domain.allowed import allowed_on
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.phase import GATE_EVENTS, Decision, decisions
from benchfleet.domain.plan import ASSIGNED, Plan, forms, plans
from benchfleet.domain.told import TOLD, newest
from benchfleet.domain.usage import Bill
from benchfleet.environment import host_name, lease_seconds, own_cache
from benchfleet.errors import (
    BenchfleetError,
    LedgerAbsent,
    LedgerDamaged,
    LedgerError,
)
from benchfleet.ledger.addresses import shown_url, split_url, usual_lease
from benchfleet.ledger.base import DEFAULT_LEASE, Ledger
from benchfleet.ledger.gates import Standing, standings
from benchfleet.ledger.history import BILLED, bill, bills
from benchfleet.results.disk import make_folder
from benchfleet.results.layout import Layout
from benchfleet.results.places.base import Place, place_at
from benchfleet.results.read import published_folders, sealed_attempts


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A campaign with its folder and its ledger's address."""

    campaign: Campaign
    layout: Layout
    url: str  # of the ledger; "" for the embedded one in the results folder
    lease: float = DEFAULT_LEASE  # seconds; renewed every fifth of it

    @property
    def folder(self) -> Path | None:
        """Where the campaign's file lies; None where a ledger told of the campaign."""
        return self.campaign.file.parent if self.campaign.file else None

    @property
    def host(self) -> str:
        """How results call this host. Raises BenchfleetError where it has no fit name."""
        try:
            return host_name(self.folder)
        except ValueError as error:
            raise BenchfleetError(str(error)) from error

    @property
    def named(self) -> str:
        """How a command names the campaign."""
        return str(self.campaign.file or "CAMPAIGN")

    @property
    def _ledger_file(self) -> Path | None:
        """The file of an embedded ledger; None for one on a server."""
        scheme, rest = split_url(self.url) if self.url else ("sqlite", str(self.layout.ledger))
        return Path(rest) if scheme == "sqlite" else None

    @property
    def shown_ledger(self) -> str:
        """Where the ledger is, as people may see it."""
        return str(self._ledger_file or shown_url(self.url))

    def ledger(self, *, known_results: bool = False) -> Ledger:
        """Open the ledger, making it where there is none yet.

        Raises LedgerError where results lie beside a ledger that is gone, unless they are known.
        """
        if not known_results and (found := self.existing_ledger()) is not None:
            return found
        if (file := self._ledger_file) is not None:
            make_folder(file.parent)
        return self._opened(make=True)

    def existing_ledger(self) -> Ledger | None:
        """Open the ledger to look at it; None where nothing was run yet."""
        try:
            return self._opened(make=False)
        except LedgerAbsent as absent:
            self._refuse_to_forget(absent)
            return None

    def _opened(self, *, make: bool) -> Ledger:
        """Open the ledger. Raises LedgerAbsent where there is none and none is to be made."""
        file, ledger = self._ledger_file, None
        if file is not None:
            if not make and not file.exists():
                raise LedgerAbsent(f"{file} is not there")
            kind = registry.load("ledgers", "sqlite")
            ledger = kind(file, campaign=self.campaign.name, lease=self.lease)
        else:
            kind = registry.load("ledgers", split_url(self.url)[0])
            more = self._carried() if getattr(kind, "carries_results", False) else {}
            name = self.campaign.name
            ledger = kind(self.url, campaign=name, lease=self.lease, make=make, **more)
        return cast(Ledger, ledger)

    def _carried(self) -> dict[str, Any]:
        """What a ledger is told that takes results along."""
        from benchfleet.ledger.git.address import address_of
        from benchfleet.ledger.sqlite.file import mount_table, network_file_system
        from benchfleet.results.places.git import Carrier, GitPlace

        folder = self.layout.root / ".ledger"
        above = self.layout.root.absolute()
        where = next(place for place in (above, *above.parents) if place.exists())
        if network_file_system(where, mount_table()) or not os.access(where, os.W_OK):
            digest = hashlib.sha256(str(self.layout.root.absolute()).encode()).hexdigest()[:12]
            folder = own_cache(os.environ) / "ledgers" / digest
        large = address_of(self.url).large
        stored = shown_url(self.campaign.place)
        carrier = Carrier(self.layout, self.campaign.name, large, stored)
        place = partial(GitPlace, self.campaign.name)
        host = host_name(self.folder)
        return {"folder": folder, "files": carrier, "place": place, "host": host}

    def records(self, cells: Iterable[Cell]) -> list[CellRecord]:
        """The cells as the ledger has them; empty where nothing was run yet."""
        ledger = self.existing_ledger()
        if ledger is None:
            return []
        with closing(ledger):
            return list(ledger.cells(among={cell.fingerprint for cell in cells}))

    def bills(self) -> dict[str, Bill]:
        """What the attempts of each cell used up, by fingerprint."""
        ledger = self.existing_ledger()
        if ledger is None:
            return {}
        with closing(ledger):
            return bills(ledger.events(kinds=BILLED))

    def bill(self, cells: Iterable[Cell]) -> Bill:
        """What the attempts of these cells used up together."""
        ledger = self.existing_ledger()
        if ledger is None:
            return Bill()
        with closing(ledger):
            return bill(ledger.events(kinds=BILLED), {cell.fingerprint for cell in cells})

    def tell(self, ledger: Ledger) -> None:
        """Record what those without the campaign's file must know, where it is not told yet."""
        told = self.campaign.told
        if told is not None and newest(ledger.events(kinds={TOLD})) != told:
            ledger.record(told.event())

    def cells(self) -> list[Cell]:
        """Every cell of the campaign: of its file, in the forms in which they were given to
        machines; or else as the ledger has them."""
        if self.campaign.file is not None:
            matrix = self.campaign.matrix
            return matrix.expand_as(self.forms()) if matrix.has_variants else matrix.expand()
        ledger = self.existing_ledger()
        if ledger is None:
            return []
        with closing(ledger):
            return [cell for record in ledger.cells(whole=True) if (cell := record.cell)]

    def forms(self) -> dict[str, str]:
        """For each cell that was given to a machine the form in which it is run, both by
        fingerprint; none where no ledger can be asked."""
        try:
            ledger = self.existing_ledger()
        except LedgerError:
            return {}
        if ledger is None:
            return {}
        with closing(ledger):
            return forms(plans(ledger.events(kinds={ASSIGNED})))

    def assign(self, chosen: Mapping[str, str]) -> None:
        """Record in which form each of these cells is run from now on, where that is another than
        was recorded."""
        if not self.campaign.matrix.has_variants:
            return
        known = self.forms()
        if all(known.get(one, one) == form for one, form in chosen.items()):
            return
        with closing(self.ledger()) as ledger:
            told = plans(ledger.events(kinds={ASSIGNED}))
            number = told[-1].number + 1 if told else 1
            ledger.record(Plan(number=number, forms=chosen).event())

    def gates(self) -> dict[str, Decision]:
        """The newest decision on the gate of each phase that has one."""
        ledger = self.existing_ledger() if self.campaign.phases else None
        if ledger is None:
            return {}
        with closing(ledger):
            return decisions(ledger.events(kinds=GATE_EVENTS))

    def phases(self, cells: Iterable[Cell], records: Iterable[CellRecord]) -> list[Standing]:
        """How each phase stands over these cells."""
        if not self.campaign.phases:
            return []
        return standings(self.campaign.phases, cells, records, self.gates())

    def allowed_here(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that the campaign lets this host run."""
        if not self.campaign.runners:
            return list(cells)
        allowed = allowed_on(self.host, self.campaign.runners)
        return [cell for cell in cells if allowed.takes(cell)]

    def mark(self) -> int:
        """Record that all of it is told of from here, and return the event's number."""
        with closing(self.ledger()) as ledger:
            return ledger.record(Event(kind="results_told"))

    def still_told(self) -> bool:
        """Whether summary and report are there and say how things stand: they were written after
        the campaign's file, and nothing happened since. A run that was killed leaves older ones.
        """
        if self.campaign.file is None:
            return False
        try:
            if self.layout.report.stat().st_mtime <= self.campaign.file.stat().st_mtime:
                return False
            told = int(json.loads(self.layout.summary.read_bytes())["told"])
        except (OSError, ValueError, LookupError, TypeError):
            return False
        ledger = self.existing_ledger()
        if ledger is None:
            return False
        with closing(ledger):
            return not ledger.events(told)

    def finished(self, cells: Iterable[Cell]) -> list[CellRecord] | None:
        """The cells' records where a run would find all of them done, and no result of any cell
        that waits for its rename; None where it has something to do."""
        ledger = self.existing_ledger()
        if ledger is None:
            return None
        among = {cell.fingerprint for cell in cells}
        records = []
        with closing(ledger):
            for record in ledger.cells(among=among):
                if record.state != "success":
                    return None
                records.append(record)
        return records if len(records) == len(among) and not sealed_attempts(self.layout) else None

    def place(self) -> Place | None:
        """The place that results are put to, where the campaign names one. Raises UnknownName,
        MissingExtra or ResultsError."""
        return place_at(self.campaign.place, self.campaign.name) if self.campaign.place else None

    def set_aside_damaged_ledger(self) -> Path | None:
        """Move an embedded ledger that is damaged out of the way; where it is kept.

        Raises LedgerError where it cannot be used for another reason, or somebody uses it still.
        """
        file = self._ledger_file
        if file is None or not file.exists():
            return None
        held: list[str] = []
        try:
            ledger = self._opened(make=False)
            with closing(ledger):
                running = ledger.cells(states=["running"])
                held += (record.path for record in running if (record.expires_in or 0.0) > 0.0)
                for _ in ledger.cells(whole=True):
                    pass  # to the end: damage shows where it is read
        except LedgerDamaged as error:
            if held:
                raise LedgerError(
                    f"{error}\nIt is left there while a runner may hold {held[0]}: end that runner,"
                    " or wait until its lease ran out."
                ) from error
            from benchfleet.ledger.sqlite.file import set_aside

            return set_aside(file)
        return None

    def _refuse_to_forget(self, absent: LedgerAbsent) -> None:
        """A new ledger beside old results would run everything again."""
        if next(published_folders(self.layout.root), None) is not None:
            where = shlex.quote(shown_url(self.url)) if self.url else ""
            at = f" --ledger {where}" if where else ""
            ways = [f"`benchfleet ledger rebuild {self.named}{at}` makes one from them"]
            if self.url and self.layout.ledger.exists():
                ways.insert(
                    0,
                    f"`benchfleet ledger copy {self.named} --to {where}` brings"
                    f" {self.layout.ledger} there with its history",
                )
            raise LedgerError(
                f"{absent}, but results are: a new ledger would run them again.\n"
                f"{'; '.join(ways)}; or name another --results folder."
            ) from absent


def open_bench(campaign: Campaign, *, ledger: str = "") -> Bench:
    """Tie a campaign to its folder and its ledger. Raises LedgerError for a wrong lease."""
    try:
        lease = lease_seconds(os.environ) or usual_lease(ledger)
    except ValueError as error:
        raise LedgerError(str(error)) from error
    return Bench(campaign=campaign, layout=Layout(campaign.results), url=ledger, lease=lease)
