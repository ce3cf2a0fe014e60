"""What is computed from whole results: the comparison, and what it all took."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from benchfleet.campaign_results import comparison_of
from benchfleet.dashboard.foreign import one_line
from benchfleet.dashboard.model import ReadModel
from benchfleet.domain.budget import Budget
from benchfleet.domain.rental import Rental, RentalHistory
from benchfleet.domain.usage import UsageTotal
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.history import BILLED, bill, host_of
from benchfleet.ledger.spending import read_rentals
from benchfleet.race import Racer
from benchfleet.reports import spending, verdicts
from benchfleet.reports.charts.base import Chart
from benchfleet.reports.charts.collection import charts_of_kind
from benchfleet.reports.charts.images import image
from benchfleet.reports.grids import Grid, page_tables
from benchfleet.reports.manifest import EVENTS, Row, manifest
from benchfleet.reports.race_standings import Race
from benchfleet.reports.ranking import Pair
from benchfleet.reports.tables import Comparison
from benchfleet.status import read_budget
from benchfleet.study import Study

CHART_KINDS = ("scores", "forest", "pareto", "length", "time", "cost", "failures")
MAX_PAIRS = 200


@dataclass(frozen=True, kw_only=True)
class CompareView:
    """What the page of the comparison shows."""

    comparison: Comparison
    sentences: Sequence[str]
    tables: Mapping[str, Grid | None]
    charts: Mapping[str, Sequence[Chart]]  # by kind; several of a kind are one picture
    pairs: Sequence[Pair]
    more_pairs: int
    missing: int  # cells that may still get a result
    has_race: bool


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What is compared; empty for all of a kind."""

    models: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    baseline: str = ""

    @property
    def query(self) -> dict[str, Any]:
        """As addresses have it."""
        return {"model": self.models, "config": self.configs, "baseline": self.baseline}


def compare_view(study: Study, chosen: Chosen) -> CompareView:
    """The comparison of a campaign. Raises LedgerError, and UnknownName for the baseline."""
    cells = [
        cell
        for cell in study.cells()
        if (not chosen.models or cell.model.name in chosen.models)
        and (not chosen.configs or cell.config.name in chosen.configs)
    ]
    comparison = comparison_of(study, cells, study.records(cells), chosen.baseline or None)
    pairs = sorted(comparison.pairs, key=lambda pair: _p_value(pair))
    counts = comparison.counts
    return CompareView(
        comparison=comparison,
        sentences=verdicts.sentences(comparison, one_line),
        tables=page_tables(comparison),
        charts=drawable(comparison),
        pairs=pairs[:MAX_PAIRS],
        more_pairs=max(0, len(pairs) - MAX_PAIRS),
        missing=counts["total"] - counts.get("success", 0) - counts.get("skipped", 0),
        has_race=study.campaign.race is not None or bool(study.race().stops),
    )


def done_cells(model: ReadModel) -> dict[tuple[str, str, str], str]:
    """The id of one cell that is done, by model, config and benchmark."""
    with model.lock:
        return {
            key: row.id
            for key, tile in model.tiles.items()
            if (row := next((one for one in tile.rows if one.state == "success"), None))
        }


def drawable(comparison: Comparison) -> dict[str, list[Chart]]:
    """The kinds of charts that have something to show; none without the extra ``report``."""
    if any(find_spec(need) is None for need in ("altair", "vl_convert")):
        return {}
    drawn = {kind: charts_of_kind(kind, comparison) for kind in CHART_KINDS}
    return {kind: charts for kind, charts in drawn.items() if charts}


def picture(charts: Sequence[Chart], form: str, *, captioned: bool = False) -> bytes:
    """The charts of a kind as SVG or PNG. Beside a caption one chart needs no title; several have
    theirs."""
    return image(charts, form, titled=not captioned or len(charts) > 1)


def _p_value(pair: Pair) -> float:
    value = pair.difference.adjusted_p
    return 2.0 if value is None else value


@dataclass(frozen=True, kw_only=True)
class CostView:
    """What a campaign took."""

    took: str
    remarks: Sequence[str]
    hosts: Sequence[tuple[str, UsageTotal]]
    groups: Sequence[spending.Spent]  # model × config
    columns: Mapping[str, Sequence[str]]
    rentals: Sequence[Rental]
    budget: Budget | None  # with what was spent of it
    now: float


def cost_view(study: Study) -> CostView:
    """What the attempts of a campaign took, and its rentals. Raises LedgerError."""
    cells = study.cells()
    record_of = {str(record.fingerprint): record for record in study.records(cells)}
    pairs = [(cell, record_of.get(str(cell.fingerprint))) for cell in cells]
    groups = spending.spending(pairs, study.bills(record_of.values()))
    everything = spending.total(groups)
    nothing: tuple[list[tuple[str, UsageTotal]], RentalHistory] = ([], RentalHistory())
    hosts, rentals = study.query(_hosts_and_rentals, default=nothing)
    return CostView(
        took=spending.in_all(everything),
        remarks=[*spending.rented(study.rental_costs()), *spending.remarks(everything)],
        hosts=hosts,
        groups=groups,
        columns=spending.columns(groups),
        rentals=list(rentals.rentals.values()),
        budget=read_budget(study),
        now=time.time(),
    )


def _hosts_and_rentals(ledger: Ledger) -> tuple[list[tuple[str, UsageTotal]], RentalHistory]:
    by_host: dict[str, list[Any]] = {}
    for event in ledger.events(kinds=BILLED):
        by_host.setdefault(host_of(event) or "unknown host", []).append(event)
    hosts = []
    for name, events in sorted(by_host.items()):
        hosts.append((name, bill(events, {event.fingerprint for event in events})))
    return hosts, read_rentals(ledger)


def race(study: Study) -> Race:
    """How the race of a campaign stands by the results that are here. Raises LedgerError."""
    cells = study.cells()
    empty = Race(confidence=0.0, comparisons=0, groups=())
    return study.query(
        lambda ledger: Racer(study, cells).look(ledger, enrolled=False), default=empty
    )


def manifest_rows(study: Study) -> list[Row]:
    """Every attempt and every rental. Raises LedgerError."""
    ledger = study.open_existing_ledger()
    if ledger is None:
        return []
    with closing(ledger):
        rentals = read_rentals(ledger)
        return manifest(
            ledger.events(kinds=EVENTS), ledger.cells(with_cell=True, parts=True), rentals
        )
