"""Writes ``BENCHMARK_REPORT.md`` of campaigns that rent machines or measure speed."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.cell import Cell
from benchfleet.domain.rental import RentalHistory
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.spending import read_rentals
from benchfleet.reports.benchmark_report import benchmark_report
from benchfleet.reports.manifest import COLUMNS, EVENTS, Row, manifest
from benchfleet.study import Study


def read_manifest(ledger: Ledger, columns: Sequence[str] = COLUMNS) -> list[Row]:
    """The rows of the manifest."""
    rentals = read_rentals(ledger)
    records = ledger.cells(with_cell=True, parts=True)
    return manifest(ledger.events(kinds=EVENTS), records, rentals, columns=columns)


def write_benchmark_report(study: Study, cells: Sequence[Cell]) -> None:
    """Write the report beside the other one, if there is something to say in it."""
    measures = any(cell.workload.measures_speed for cell in cells)
    if not measures and not study.query(read_rentals, default=RentalHistory()).rentals:
        return
    nothing: list[Row] = []
    columns = (*COLUMNS, "currency")
    rows = study.query(lambda ledger: read_manifest(ledger, columns), default=nothing)
    text = benchmark_report(rows, title=study.campaign.name)
    study.layout.benchmark_report.write_text(text, encoding="utf-8")
