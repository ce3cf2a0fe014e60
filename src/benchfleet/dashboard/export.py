"""A static site of a campaign: the same pages as files, read only, that open by a double click."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import benchfleet
from benchfleet.dashboard.app import ASSETS
from benchfleet.dashboard.campaigns import ShownCampaign
from benchfleet.dashboard.cell_pages import cell_values
from benchfleet.dashboard.context import frame_values
from benchfleet.dashboard.pages import (
    cell_lines,
    failure_values,
    machine_values,
    matrix_values,
    overview_values,
)
from benchfleet.dashboard.render import Links, asset, render
from benchfleet.dashboard.result_pages import manifest_values, plan_values, race_values
from benchfleet.dashboard.views import cell, cells, results
from benchfleet.dashboard.views.filters import Filters
from benchfleet.dashboard.views.gantt import Window
from benchfleet.dashboard.views.running import rows_now
from benchfleet.errors import BenchfleetError
from benchfleet.reports import wording
from benchfleet.reports.failures import FAILED_STATES

MAX_CELL_PAGES = 2_000  # the failed cells first
MAX_LISTED_ROWS = 2_000
LARGE_BYTES = 50_000_000
_NOT_EXPORTED = ("htmx.min.js", "matrix.js", "select.js", "log.js", "curves.js")  # need a server
_MARKER = "benchfleet-export"


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written."""

    folder: Path
    pages: int
    cell_pages: int
    cells: int
    size: int  # bytes

    @property
    def is_large(self) -> bool:
        return self.size > LARGE_BYTES


def export(campaign: ShownCampaign, folder: Path) -> Exported:
    """Write the site into a new folder, or over an earlier site. Raises BenchfleetError."""
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARKER).exists():
        raise BenchfleetError(
            f"{folder} has files of something else; name a new folder, or an earlier export"
        )
    model = campaign.view()
    if model.freshness.error:
        raise BenchfleetError(f"the ledger cannot be read: {model.freshness.error}")
    for name in ("static", "cell", "compare"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / _MARKER).write_text(f"{benchfleet.__version__}\n", "utf-8")
    for name in ASSETS:
        if name not in _NOT_EXPORTED:
            (folder / "static" / name).write_bytes(asset(name))
    return _Export(campaign, folder).write()


class _Export:
    """One export at work."""

    def __init__(self, campaign: ShownCampaign, folder: Path) -> None:
        self._campaign, self._folder = campaign, folder
        self._model = campaign.watcher.model
        by_urgency = sorted(self._model.rows, key=lambda row: row.state not in FAILED_STATES)
        self._rows = by_urgency[:MAX_CELL_PAGES]  # those that get a page
        self._ids = frozenset(row.id for row in self._rows)

    def write(self) -> Exported:
        """Write every page; say what was written."""
        count = 0
        for page, template, values in self._pages():
            self._write(page, template, values())
            count += 1
        names = {row.fingerprint for row in self._rows}
        histories = cell.histories_of(self._campaign.study, names) if names else {}
        for row in self._rows:
            tab_values = cell_values(self._campaign, self._model, row, histories[row.fingerprint])
            self._write(f"cell/{row.id}", "cell.html.j2", tab_values)
        with self._model.lock:
            rows = rows_now(self._model)
        with open(self._folder / "cells.csv", "w", encoding="utf-8") as file:
            file.writelines(cell_lines(rows))
        size = sum(one.stat().st_size for one in self._folder.rglob("*") if one.is_file())
        return Exported(
            folder=self._folder,
            pages=count,
            cell_pages=len(self._rows),
            cells=len(self._model.rows),
            size=size,
        )

    def _pages(self) -> Iterator[tuple[str, str, Callable[[], Mapping[str, Any]]]]:
        """Each page but those of cells: its name, its template and its values."""
        study, model = self._campaign.study, self._model
        listed = cells.cell_page(model, Filters(), limit=MAX_LISTED_ROWS)
        yield "overview", "overview.html.j2", lambda: overview_values(model, local_run=False)
        yield "matrix", "matrix.html.j2", lambda: matrix_values(model, Filters())
        yield "cells", "export_cells.html.j2", lambda: {"view": listed}
        yield "failures", "failures.html.j2", self._failures
        yield "machines", "machines.html.j2", lambda: machine_values(model)
        yield "compare", "compare.html.j2", self._compare
        yield "race", "race.html.j2", lambda: race_values(study, results.race(study))
        yield "plan", "plan.html.j2", lambda: plan_values(study, model, Window())
        yield "cost", "cost.html.j2", lambda: {"view": results.cost_view(study)}
        rows = results.manifest_rows(study)
        yield "manifest", "manifest.html.j2", lambda: manifest_values(rows)

    def _failures(self) -> Mapping[str, Any]:
        return {**failure_values(self._campaign.study, self._model), "chosen": None}

    def _compare(self) -> Mapping[str, Any]:
        view = results.compare_view(self._campaign.study, results.Chosen())
        for kind, charts in view.charts.items():
            content = results.picture(charts, "svg", captioned=True)
            (self._folder / "compare" / f"{kind}.svg").write_bytes(content)
        chosen = {"chosen": results.Chosen(), "axes": {}, "cells_of": {}}
        return {"view": view, **chosen, "wording": wording}

    def _write(self, page: str, template: str, values: Mapping[str, Any]) -> None:
        links = Links(page.count("/"), files_on_disk=True, cells=self._ids)
        frame = frame_values(self._campaign, self._model, links, page, may_order=False)
        campaigns = {self._campaign.slug: self._campaign.name}
        more = {"campaigns": campaigns, "query": "", "app_version": benchfleet.__version__}
        text = render(template, {**frame, **more, **values})
        name = "index" if page == "overview" else page
        (self._folder / f"{name}.html").write_text(text, "utf-8")
