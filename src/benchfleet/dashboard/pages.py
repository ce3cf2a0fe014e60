"""The pages that the read model alone can show: overview, matrix, cells, failures, machines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import RedirectResponse, Response, StreamingResponse

from benchfleet.dashboard.context import Context
from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.order_names import ChangedFilter, StateFilter
from benchfleet.dashboard.render import Links, render
from benchfleet.dashboard.rows import SHOWN_STATES, Row
from benchfleet.dashboard.views import cells, failures, machines, matrix, overview, served
from benchfleet.dashboard.views.filters import SPAN_NAMES, Filters
from benchfleet.dashboard.views.sorting import Order, in_order
from benchfleet.reports.csv_lines import csv_lines
from benchfleet.reports.failures import TRUST
from benchfleet.results.layout import Layout
from benchfleet.runs.registry import runs_of
from benchfleet.study import Study

MAX_GROUP_ROWS = 100
MAX_RETRY_ROWS = 20
Text = Annotated[str, Query(max_length=300)]
After = Annotated[int, Query(ge=-1, le=2**31)]  # the position of the last row before; -1: none
CSV_COLUMNS = (
    *("path", "model", "config", "benchmark", "subset", "repeat", "phase", "state", "attempt"),
    *("score", "samples", "seconds", "host", "device", "stage", "kind", "message", "fingerprint"),
    "silent_seconds",
)


def filters_of(
    request: Request,
    model: Text = "",
    config: Text = "",
    benchmark: Text = "",
    subset: Text = "",
    state: StateFilter = "",
    host: Text = "",
    changed: ChangedFilter = "",
    q: Text = "",
) -> Filters:
    """The filters in an address. Raises RequestValidationError for two values of one."""
    for name in ("model", "config", "benchmark", "subset", "state", "host", "changed", "q"):
        if len(values := dict.fromkeys(request.query_params.getlist(name))) > 1:
            problem = f"it can have one value here, and has {len(values)}"
            value = ", ".join(values)
            raise RequestValidationError(
                [{"type": "value_error", "loc": ("query", name), "msg": problem, "input": value}]
            )
    return Filters(
        model=model,
        config=config,
        benchmark=benchmark,
        subset=subset,
        state=state,
        host=host,
        changed=changed,
        text=q,
    )


def router_of(context: Context) -> APIRouter:
    """The routes of these pages."""
    from fastapi import Depends

    router = APIRouter(include_in_schema=False)
    filters_query = Depends(filters_of)

    @router.get("/")
    def start(request: Request) -> Response:
        names = context.campaigns.names
        if len(names) == 1:
            return RedirectResponse(f"./c/{Links(0).page(next(iter(names)))}/", status_code=307)
        values = {"campaigns": names, "may_order": request.state.may_order}
        return Response(render("campaigns.html.j2", values), media_type="text/html")

    @router.get("/c/{slug}")
    def without_slash(request: Request, slug: str) -> Response:
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(
            f"./{Links(0).page(context.campaign(slug).slug)}/{query}", status_code=307
        )

    @router.get("/c/{slug}/")
    def overview_page(request: Request, slug: str) -> Response:
        campaign = context.campaign(slug)
        model = campaign.view_soon()

        def values() -> dict[str, Any]:
            return overview_values(model, local_run=has_local_run(campaign.study.layout))

        return context.page(request, campaign, model, "overview.html.j2", values, page="overview")

    @router.get("/c/{slug}/matrix")
    def matrix_page(
        request: Request,
        slug: str,
        filters: Filters = filters_query,
        unfold: Annotated[list[str] | None, Query(max_length=64)] = None,
        show: Text = "score",
        swap: bool = False,
    ) -> Response:
        campaign = context.campaign(slug)
        model = campaign.view_soon()

        def values() -> dict[str, Any]:
            return matrix_values(model, filters, unfold or (), show=show, swapped=swap)

        return context.page(request, campaign, model, "matrix.html.j2", values, page="matrix")

    @router.get("/c/{slug}/cells")
    def cells_page(
        request: Request,
        slug: str,
        filters: Filters = filters_query,
        sort: Order = "",
        after: After = -1,
    ) -> Response:
        campaign = context.campaign(slug)
        model = campaign.view_soon()

        def values() -> dict[str, Any]:
            view = cells.cell_page(model, filters, order=sort, after=after)
            return {"view": view, "after": after, "sort": sort, **filter_values(filters)}

        return context.page(request, campaign, model, "cells.html.j2", values, page="matrix")

    @router.get("/c/{slug}/cells.csv")
    def cells_csv(slug: str, filters: Filters = filters_query, sort: Order = "") -> Response:
        model = context.campaign(slug).view()
        with model.lock:
            rows = in_order(cells.matching(model, filters), sort)
        return csv_answer("cells.csv", cell_lines(rows))

    @router.get("/c/{slug}/failures")
    def failures_page(request: Request, slug: str, group: Text = "") -> Response:
        campaign = context.campaign(slug)
        model = campaign.view_soon()

        def values() -> dict[str, Any]:
            return failure_values(campaign.study, model, group)

        return context.page(request, campaign, model, "failures.html.j2", values, page="failures")

    @router.get("/c/{slug}/machines")
    def machines_page(request: Request, slug: str) -> Response:
        campaign = context.campaign(slug)
        model = campaign.view_soon()

        def values() -> dict[str, Any]:
            return machine_values(model)

        return context.page(request, campaign, model, "machines.html.j2", values, page="machines")

    return router


def overview_values(model: ReadModel, *, local_run: bool) -> dict[str, Any]:
    """What the overview shows; `local_run`: a run can be stopped here."""
    return {"view": overview.overview(model), "has_local_run": local_run}


def matrix_values(
    model: ReadModel,
    filters: Filters,
    unfold: Collection[str] = (),
    *,
    show: str = "score",
    swapped: bool = False,
) -> dict[str, Any]:
    """What the matrix shows."""
    unfolded = sorted(set(unfold))
    return {
        "view": matrix.matrix(model, filters, unfolded, swapped=swapped),
        "unfolded": unfolded,
        "show": "state" if show == "state" else "score",
        "swapped": swapped,
        **filter_values(filters),
    }


def machine_values(model: ReadModel) -> dict[str, Any]:
    """What the page of machines shows."""
    with model.lock:
        return {"machines": machines.machines(model), "served": served.served_models(model)}


def filter_values(filters: Filters) -> dict[str, Any]:
    """What the form of the filters shows."""
    return {"filters": filters, "states": SHOWN_STATES, "spans": SPAN_NAMES}


def failure_values(study: Study, model: ReadModel, group: str = "") -> dict[str, Any]:
    """What the page of failures shows, with one group of them opened."""
    with model.lock:
        groups = failures.failure_groups(model)
        before = failures.rows_before_retry(model, MAX_RETRY_ROWS)
        after, after_count = failures.rows_after_retry(model, MAX_RETRY_ROWS)
    chosen = next((one for one in groups if one.id == group), groups[0] if groups else None)
    return {
        "groups": groups,
        "chosen": chosen,
        "command_of": partial(failures.command_of, study),
        "needs_trust": partial(failures.needs_trust, study),
        "trust": TRUST,
        "most": MAX_GROUP_ROWS,
        "before_retry": before,
        "after_retry": after,
        "after_retry_count": after_count,
    }


def has_local_run(layout: Layout) -> bool:
    """Whether a run of this folder is active on this machine and can be stopped."""
    return any(run.is_running and run.ends_on for run in runs_of(layout))


def cell_lines(rows: Iterable[Row]) -> Iterator[str]:
    """The cells as CSV."""
    return csv_lines(
        CSV_COLUMNS, ({name: getattr(row, name) for name in CSV_COLUMNS} for row in rows)
    )


def csv_answer(name: str, lines: Iterator[str]) -> Response:
    """A file of this name with these lines of CSV, to be saved."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines, media_type="text/csv", headers=headers)
