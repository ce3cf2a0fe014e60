"""The JSON API, described by OpenAPI: the status, cells by page, failures, machines and changes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from starlette.responses import Response, StreamingResponse

from benchfleet.dashboard.answers import (
    AttemptAnswer,
    CellAnswer,
    CellDetails,
    CellsAnswer,
    ChangesAnswer,
    FailureAnswer,
    FailuresAnswer,
    MachineStatus,
    StatusAnswer,
)
from benchfleet.dashboard.campaigns import ShownCampaign
from benchfleet.dashboard.cell_pages import history_of
from benchfleet.dashboard.context import Context
from benchfleet.dashboard.foreign import visible
from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.pages import After, filters_of
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.stream import STATE_NUMBERS, Streams, TooManyStreams, message_since
from benchfleet.dashboard.views import cells, failures, machines
from benchfleet.dashboard.views.filters import Filters
from benchfleet.dashboard.views.overview import overview
from benchfleet.dashboard.views.running import running_rows
from benchfleet.dashboard.views.sorting import Order

MAX_FAILURE_GROUPS = 100
MAX_GROUP_CELLS = 500
CampaignName = Annotated[
    str, Query(max_length=300, description="which campaign; may be left out where there is one")
]
_STREAM_HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-cache"}


def router_of(context: Context, streams: Streams) -> APIRouter:
    """The routes of the API."""
    router = APIRouter(prefix="/api")
    filters_query = Depends(filters_of)
    not_found: dict[int | str, dict[str, Any]] = {404: {"description": "no such campaign or cell"}}

    def chosen(campaign: CampaignName = "") -> ShownCampaign:
        names = context.campaigns.names
        if not campaign and len(names) > 1:
            raise HTTPException(404, "this server shows several campaigns; name one")
        return context.campaign(campaign or next(iter(names), ""))

    shown_query = Depends(chosen)

    @router.get("/status", responses=not_found)
    def status(campaign: ShownCampaign = shown_query) -> StatusAnswer:
        """How far the campaign is, and its machines."""
        return status_answer(campaign, campaign.view())

    @router.get("/cells", responses=not_found)
    def list_cells(
        campaign: ShownCampaign = shown_query,
        filters: Filters = filters_query,
        sort: Order = "",
        after: After = -1,
        limit: Annotated[int, Query(ge=1, le=cells.MAX_PAGE_ROWS)] = cells.PAGE_ROWS,
    ) -> CellsAnswer:
        """The cells that the filters leave, sorted, by pages."""
        page = cells.cell_page(campaign.view(), filters, order=sort, after=after, limit=limit)
        return CellsAnswer(
            total=page.total,
            cells=[cell_answer(row) for row in page.rows],
            next=page.after if page.after >= 0 else None,
        )

    @router.get("/cells/{id}", responses=not_found)
    def one_cell(id: str, campaign: ShownCampaign = shown_query) -> CellDetails:
        """One cell with its attempts."""
        model = campaign.view()
        row = context.row(model, id)
        with model.lock:
            row = running_rows(model).get(row.index, row)
        history = history_of(campaign, row)
        outcome = history.record.outcome if history.record else None
        return CellDetails(
            cell=cell_answer(row),
            attempts=[_attempt(one) for one in history.attempts],
            metrics=dict(outcome.metrics) if outcome else {},
        )

    @router.get("/failures", responses=not_found)
    def list_failures(campaign: ShownCampaign = shown_query) -> FailuresAnswer:
        """Failed cells, grouped by cause."""
        model = campaign.view()
        with model.lock:
            groups = failures.failure_groups(model)
        return FailuresAnswer(
            total=len(groups),
            groups=[
                FailureAnswer(
                    id=group.id,
                    stage=group.stage,
                    kind=group.kind,
                    message=visible(group.message),
                    way_out=group.way_out,
                    count=group.count,
                    cells=[visible(row.path) for row in group.rows[:MAX_GROUP_CELLS]],
                )
                for group in groups[:MAX_FAILURE_GROUPS]
            ],
        )

    @router.get("/changes", responses=not_found)
    def changes(
        campaign: ShownCampaign = shown_query,
        since: Annotated[str, Query(max_length=60)] = "",
    ) -> ChangesAnswer:
        """What changed since a cursor, for viewers without the stream."""
        return ChangesAnswer(**message_since(campaign.view(), since))

    @router.get("/stream", include_in_schema=False)
    async def stream(request: Request, campaign: str = "", since: str = "") -> Response:
        client = request.client.host if request.client else ""
        cursor = request.headers.get("last-event-id") or since
        try:
            streams.take_place(client)
        except TooManyStreams:
            raise HTTPException(503, "too many streams are open; the page polls") from None
        messages = streams.messages(chosen(campaign), cursor[:60], client)
        return StreamingResponse(messages, media_type="text/event-stream", headers=_STREAM_HEADERS)

    return router


def states_router(context: Context) -> APIRouter:
    """The state of every cell, one byte each in the campaign's order."""
    router = APIRouter(include_in_schema=False)

    @router.get("/c/{slug}/states.bin")
    def states(slug: str) -> Response:
        model = context.campaign(slug).view()
        with model.lock:
            content = bytes(STATE_NUMBERS[row.state] for row in model.rows)
        return Response(content, media_type="application/octet-stream")

    return router


def status_answer(campaign: ShownCampaign, model: ReadModel) -> StatusAnswer:
    """The status as the API has it."""
    seen = overview(model)
    with model.lock:
        hosts = machines.machines(model)
    return StatusAnswer(
        campaign=visible(campaign.name),
        total=seen.total,
        states=seen.counts,
        share=None if seen.share is None else round(seen.share, 4),
        eta_seconds=seen.eta,
        age_seconds=round(model.freshness.age, 1) if model.freshness.read_at else None,
        error=visible(model.freshness.error),
        machines=[
            MachineStatus(
                hostname=visible(one.name),
                phase=visible(one.phase),
                status=one.status,
                running=one.running,
                done=one.done,
                failed=one.failed,
                silent_seconds=round(one.silent, 1),
                clock_ahead_seconds=round(one.clock_ahead, 1),
            )
            for one in hosts
        ],
    )


def cell_answer(row: Row) -> CellAnswer:
    """A row as the API has it."""
    values = {name: getattr(row, name) for name in CellAnswer.model_fields}
    safe = {k: visible(v) if isinstance(v, str) else v for k, v in values.items()}
    return CellAnswer.model_validate(safe)


def _attempt(one: Any) -> AttemptAnswer:
    outcome = one.outcome
    return AttemptAnswer(
        attempt=one.attempt,
        runner=one.runner,
        began_at=one.claimed_at,
        ended_at=one.ended_at,
        ending=one.how or "running",
        state=outcome.state if outcome else "",
        host=visible(outcome.host) if outcome else "",
        device=visible(outcome.device) if outcome else "",
        failure=visible(outcome.failure) if outcome and outcome.failure else "",
    )
