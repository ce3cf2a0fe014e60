"""The pages of whole results: compare, race, plan, cost, manifest; computed once for all."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar, cast

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from starlette.responses import Response

from benchfleet.dashboard.campaigns import ShownCampaign
from benchfleet.dashboard.context import Context
from benchfleet.dashboard.foreign import one_line
from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.pages import Text, csv_answer
from benchfleet.dashboard.views import results
from benchfleet.dashboard.views.gantt import MAX_GANTT_EVENTS, MAX_ZOOM, Window, gantt
from benchfleet.dashboard.views.side_by_side import MAX_ITEMS
from benchfleet.dashboard.views.slots import slots_of
from benchfleet.domain.plan import ASSIGNED, newest, plans
from benchfleet.errors import LedgerError
from benchfleet.reports import race_table, wording
from benchfleet.reports.csv_lines import csv_lines
from benchfleet.reports.manifest import COLUMNS
from benchfleet.reports.race_standings import Race
from benchfleet.study import Study

MAX_MANIFEST_ROWS = 200
MAX_WAITING = 20
_MAX_RESULTS = 32
T = TypeVar("T")
ChartKind = Literal["scores", "forest", "pareto", "length", "time", "cost", "failures"]


class Results:
    """What was computed last, by its name."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._values: OrderedDict[tuple[str, str], tuple[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(
        self, campaign: ShownCampaign, model: ReadModel, name: str, compute: Callable[[], T]
    ) -> T:
        """The value of this name, computed if a cell ended since. While the ledger is away, it is
        the value before. Raises LedgerError where there is none."""
        key, version = (campaign.slug, name), model.results
        with self._lock:
            earlier = self._values.get(key)
        if earlier is not None and earlier[0] == version:
            return cast(T, earlier[1])
        try:
            with self._context.hold_expensive():
                campaign.require_ledger()
                value = compute()
                campaign.require_ledger()  # else it may lack all that the ledger has
        except LedgerError:
            if earlier is None:
                raise
            return cast(T, earlier[1])
        with self._lock:
            self._values[key] = version, value
            self._values.move_to_end(key)
            while len(self._values) > _MAX_RESULTS:
                self._values.popitem(last=False)
        return value


Names = Annotated[list[str] | None, Query(max_length=MAX_ITEMS)]


def chosen_of(model: Names = None, config: Names = None, baseline: Text = "") -> results.Chosen:
    """What an address compares."""
    models, configs = tuple(dict.fromkeys(model or ())), tuple(dict.fromkeys(config or ()))
    if configs and baseline and baseline not in configs:
        configs = (baseline, *configs)
    return results.Chosen(models=models, configs=configs, baseline=baseline)


def router_of(context: Context) -> APIRouter:
    """The routes of these pages."""
    router = APIRouter(include_in_schema=False)
    kept_results = Results(context)
    chosen_query = Depends(chosen_of)

    def manifest_rows(campaign: ShownCampaign, model: ReadModel) -> list[dict[str, Any]]:
        study = campaign.study
        return kept_results.get(campaign, model, "manifest", lambda: results.manifest_rows(study))

    @router.get("/c/{slug}/compare")
    def compare_page(
        request: Request, slug: str, chosen: results.Chosen = chosen_query
    ) -> Response:
        campaign = context.campaign(slug)
        model = campaign.view()

        def values() -> dict[str, Any]:
            view = compared(kept_results, campaign, chosen)
            axes = {"axes": model.axes, "cells_of": results.done_cells(model)}
            return {"view": view, "chosen": chosen, **axes, "wording": wording}

        return context.page_of_results(request, campaign, "compare.html.j2", values, "compare")

    @router.get("/c/{slug}/compare/{kind}.{form}")
    def chart(
        slug: str,
        kind: ChartKind,
        form: Literal["svg", "png"],
        captioned: bool = False,
        chosen: results.Chosen = chosen_query,
    ) -> Response:
        campaign = context.campaign(slug)
        view = compared(kept_results, campaign, chosen)
        if kind not in view.charts:
            raise HTTPException(404, "no result has what this chart shows")
        content = kept_results.get(
            campaign,
            campaign.view(),
            f"{kind}.{form} {captioned} {chosen}",
            lambda: results.picture(view.charts[kind], form, captioned=captioned),
        )
        return Response(content, media_type={"svg": "image/svg+xml", "png": "image/png"}[form])

    @router.get("/c/{slug}/race")
    def race_page(request: Request, slug: str) -> Response:
        campaign = context.campaign(slug)
        model, study = campaign.view(), campaign.study

        def values() -> dict[str, Any]:
            race = kept_results.get(campaign, model, "race", lambda: results.race(study))
            return race_values(study, race)

        return context.page_of_results(request, campaign, "race.html.j2", values, "compare")

    @router.get("/c/{slug}/plan")
    def plan_page(
        request: Request,
        slug: str,
        zoom: Annotated[int, Query(ge=1, le=MAX_ZOOM)] = 1,
        at: Annotated[float, Query(ge=0, le=1)] = 1.0,
    ) -> Response:
        campaign = context.campaign(slug)
        model = campaign.view_soon()
        window = Window(zoom=zoom, at=at)

        def values() -> dict[str, Any]:
            with context.hold_expensive():
                plan_parts = plan_values(campaign.study, model, window)
            return {**plan_parts, "is_away": campaign.has_lost_ledger}

        return context.page_of_results(request, campaign, "plan.html.j2", values, "plan")

    @router.get("/c/{slug}/cost")
    def cost_page(request: Request, slug: str) -> Response:
        campaign = context.campaign(slug)
        model, study = campaign.view(), campaign.study

        def values() -> dict[str, Any]:
            view = kept_results.get(campaign, model, "cost", lambda: results.cost_view(study))
            return {"view": view}

        return context.page_of_results(request, campaign, "cost.html.j2", values, "cost")

    @router.get("/c/{slug}/manifest")
    def manifest_page(request: Request, slug: str) -> Response:
        campaign = context.campaign(slug)
        model = campaign.view()

        def values() -> dict[str, Any]:
            return manifest_values(manifest_rows(campaign, model))

        return context.page_of_results(request, campaign, "manifest.html.j2", values, "cost")

    @router.get("/c/{slug}/manifest.csv")
    def manifest_csv(slug: str) -> Response:
        campaign = context.campaign(slug)
        rows = manifest_rows(campaign, campaign.view())
        return csv_answer("manifest.csv", csv_lines(COLUMNS, rows))

    return router


def compared(
    kept_results: Results, campaign: ShownCampaign, chosen: results.Chosen
) -> results.CompareView:
    """The comparison of what an address names. Raises LedgerError, and HTTPException for names that
    the campaign does not have."""
    model = campaign.view()
    for axis, names in (
        ("model", chosen.models),
        ("config", (*chosen.configs, *filter(None, [chosen.baseline]))),
    ):
        if unknown := [name for name in names if name not in model.axes.get(axis, ())]:
            raise HTTPException(
                404,
                f"the campaign has no {axis} {one_line(unknown[0])}; choose one of the page",
            )
    return kept_results.get(
        campaign,
        model,
        f"compare {chosen}",
        lambda: results.compare_view(campaign.study, chosen),
    )


def plan_values(study: Study, model: ReadModel, window: Window) -> dict[str, Any]:
    """What ran where, what waits for what, and the newest assignment to hosts."""
    with model.lock:
        paths = {row.fingerprint: row.path for row in model.rows}
        waiting = [row for row in model.rows if row.state in ("pending", "retrying")]
        done = {row.fingerprint for row in model.rows if row.state == "success"}
        running = {
            slot.fingerprint: f"{slot.host} {slot.devices}"
            for slot in slots_of(model)
            if slot.row is not None and slot.devices
        }
    drawn = gantt(study, paths, running, window)
    assigned = study.query(
        lambda ledger: newest(plans(ledger.events(kinds={ASSIGNED}))), default=None
    )
    hosts = [
        (host, len(names), sum(name in done for name in names))
        for host, names in ((assigned.hosts if assigned else None) or {}).items()
    ]
    return {
        "gantt": drawn,
        "window": window,
        "waiting": waiting[:MAX_WAITING],
        "waiting_total": len(waiting),
        "hosts": hosts,
        "events_read": MAX_GANTT_EVENTS,
    }


def race_values(study: Study, race: Race) -> dict[str, Any]:
    """What the page of the race shows."""
    stopped = any(one.stopped for group in race.groups for one in group.standings)
    return {
        "race": race,
        "has_race": study.campaign.race is not None or stopped,
        "race_head": race_table.HEAD,
        "race_row": race_table.row,
    }


def manifest_values(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The newest rows, with the columns that have something in them."""
    newest_rows = rows[::-1][:MAX_MANIFEST_ROWS]
    used = [name for name in COLUMNS if any(row[name] not in (None, "") for row in newest_rows)]
    return {"columns": used, "rows": newest_rows, "rows_total": len(rows)}
