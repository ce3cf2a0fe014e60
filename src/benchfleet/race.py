"""Deciding a campaign's race: what is surely worse is recorded, and its cells are cancelled."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.campaign_results import sample_scores_of
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.race import RACE, RaceSettings, RaceStop
from benchfleet.judgements import is_judgement
from benchfleet.ledger.base import Ledger
from benchfleet.orders.cells import CANCEL
from benchfleet.reports.pooling import Scores
from benchfleet.reports.race_standings import Race
from benchfleet.reports.racing import race_of
from benchfleet.results.read import SampleScores
from benchfleet.study import Study, in_order


class Racer:
    """Decides the race of a campaign, again and again; it reads each result once."""

    def __init__(self, study: Study, cells: Sequence[Cell]) -> None:
        self._study = study
        self._cells = [cell for cell in study.marked(cells) if not is_judgement(cell)]
        self._settings = study.campaign.race or RaceSettings()
        self._read: dict[tuple[str, str], SampleScores] = {}
        self.notes: tuple[str, ...] = ()  # which groups do not race, and why, as last decided

    def look(self, ledger: Ledger, *, enrolled: bool = True) -> Race:
        """How the race stands, by the results that are here; with `enrolled` False also cells that
        the ledger does not have yet are pending. Raises ResultsError."""
        order = [cell.fingerprint for cell in self._cells]
        records = in_order(ledger.cells(fingerprints=set(order)), order)
        if not enrolled:
            names = {record.fingerprint for record in records}
            records += [_pending(cell) for cell in self._cells if cell.fingerprint not in names]
        history = self._study.race(ledger)
        return race_of(self._settings, self._cells, records, self._scores(records), history)

    def decide(self, ledger: Ledger) -> list[RaceStop]:
        """Stop what is surely worse; what was stopped now."""
        race = self.look(ledger)
        self.notes = tuple(
            f"{one.model} / {one.benchmark} does not race: {one.note}"
            for one in race.groups
            if one.note
        )
        stops = list(race.stops(by=self._study.host))
        record_stops(ledger, stops)
        return stops

    def _scores(self, records: Sequence[CellRecord]) -> Scores:
        new = [one for one in records if one.state == "success" and _key(one) not in self._read]
        read = sample_scores_of(self._study, new)

        def scores(record: CellRecord) -> SampleScores:
            if (key := _key(record)) in self._read:
                return self._read[key]
            if (result := read(record)).scores:  # what is not here yet is looked for again
                self._read[key] = result
            return result

        return scores


def record_stops(ledger: Ledger, stops: Sequence[RaceStop]) -> None:
    """Record the decisions and cancel their cells, which every host obeys. If this is interrupted,
    the next decision cancels the rest."""
    for stop in stops:
        ledger.record(stop.event())
        data = {"by": RACE, "reason": f"{stop.config} is {stop.finding} on {stop.benchmark}"}
        for fingerprint in stop.cells:
            ledger.record(Event(kind=CANCEL, fingerprint=fingerprint, data=data))


def _pending(cell: Cell) -> CellRecord:
    return CellRecord(
        fingerprint=cell.fingerprint,
        id=cell.id,
        path=cell.path(marked=False),
        state="pending",
        attempt=0,
        tries=0,
        token=0,
    )


def _key(record: CellRecord) -> tuple[str, str]:
    return record.path, record.outcome.digest if record.outcome else ""
