"""The pages of cells: log, samples, telemetry, stack and events of one, and several by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from benchfleet.dashboard import logs
from benchfleet.dashboard.campaigns import ShownCampaign
from benchfleet.dashboard.context import Context
from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.pages import Text
from benchfleet.dashboard.render import render
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.views import cell, cells, happened
from benchfleet.dashboard.views.side_by_side import (
    MAX_ITEMS,
    Group,
    same_question,
    side_by_side,
)
from benchfleet.dashboard.views.slots import silence_of, slots_of
from benchfleet.errors import LedgerError

Tab = Literal["log", "samples", "side", "metrics", "telemetry", "stack", "events"]
SampleFilter = Literal["all", "wrong", "empty", "cut", "slow"]
Number = Annotated[int, Query(ge=0, le=1_000_000)]
AWAY = "Samples of these cells are not here, or cannot be read while the ledger is away."
MAX_OTHERS = 200  # cells that can be chosen for the side by side


def router_of(context: Context) -> APIRouter:
    """The routes of the pages of a cell."""
    router = APIRouter(include_in_schema=False)

    @router.get("/c/{slug}/cell/{id}")
    def cell_page(
        request: Request,
        slug: str,
        id: str,
        tab: Tab | None = None,
        attempt: Number = 0,
        page: Number = 0,
        show: SampleFilter = "all",
        q: Text = "",
        other: Text = "",
        group: Group = "",
    ) -> Response:
        campaign = context.campaign(slug)
        model = campaign.view()
        row = context.row(model, id)

        def values() -> dict[str, Any]:
            try:
                history = history_of(campaign, row)
            except LedgerError:
                history = cell.CellHistory(is_known=False)
            tab_values = cell_values(campaign, model, row, history, tab, attempt, page, show, q)
            if tab_values["tab"] == "side":
                folder = cell.folder_of(campaign.study, row, history)
                tab_values |= _side_values(campaign, model, row, folder, other, group, page)
            return tab_values

        return context.page(
            request, campaign, model, "cell.html.j2", values, page="matrix", depth=1, cached=False
        )

    @router.get("/c/{slug}/samples")
    def samples_page(
        request: Request,
        slug: str,
        cell: Annotated[list[str], Query(min_length=1, max_length=MAX_ITEMS)],
        group: Group = "",
        page: Number = 0,
    ) -> Response:
        """Up to six cells side by side by sample."""
        campaign = context.campaign(slug)
        model = campaign.view()
        rows = [context.row(model, id) for id in dict.fromkeys(cell)]
        return context.page(
            request,
            campaign,
            model,
            "samples.html.j2",
            lambda: samples_values(context, campaign, model, rows, group, page),
            page="compare",
            cached=False,
        )

    @router.get("/c/{slug}/cell/{id}/log")
    def log_part(
        slug: str, id: str, attempt: Number = 0, before: int | None = None, after: int | None = None
    ) -> Response:
        """Some lines as HTML: those before a position, or those that came after one."""
        log = _log_at(context, slug, id, attempt)
        try:
            if after is not None:
                part = logs.part_after(log, after)
            else:
                part = logs.part_before(log, before)
        except OSError:
            raise HTTPException(404, "the log cannot be read any more") from None
        text = render("log_lines.html.j2", {"part": part})
        headers = {"X-Log-Begin": str(part.begin), "X-Log-End": str(part.end)}
        return HTMLResponse(text, headers=headers)

    @router.get("/c/{slug}/cell/{id}/log.txt")
    def whole_log(slug: str, id: str, attempt: Number = 0) -> Response:
        """The whole log, as it was written."""
        log = _log_at(context, slug, id, attempt)
        headers = {"Content-Disposition": 'attachment; filename="log.txt"'}
        return StreamingResponse(
            log.pieces(), media_type="application/octet-stream", headers=headers
        )

    return router


def history_of(campaign: ShownCampaign, row: Row) -> cell.CellHistory:
    """What the ledger has of a cell. Raises LedgerError."""
    history = cell.history_of(campaign.study, row.fingerprint)
    if history.record is None:
        campaign.require_ledger()
    return history


def cell_values(
    campaign: ShownCampaign,
    model: ReadModel,
    row: Row,
    history: cell.CellHistory,
    tab: Tab | None = None,
    attempt: int = 0,
    page: int = 0,
    show: SampleFilter = "all",
    text: str = "",
) -> dict[str, Any]:
    """What a tab of a cell shows, but for the side by side; the usual tab where none is named."""
    tab = tab or ("samples" if row.state == "success" else "log")
    folder = cell.folder_of(campaign.study, row, history)
    more: Mapping[str, Any] = {}
    if tab == "log":
        more = _log_values(campaign, history, attempt)
    elif tab == "samples":
        more = {"samples": cell.sample_page(folder, page=page, show=show, text=text)}
    elif tab == "telemetry":
        more = {"curves": cell.telemetry_of(folder)}
    elif tab in ("stack", "metrics"):
        more = {"stack": cell.stack_of(folder)}
    return {
        **_head_values(campaign, model, row, history, attempt),
        **more,
        "tab": tab,
        "show": show,
        "q": text,
        "sample_filters": cell.SAMPLE_FILTERS,
        "most_text": cell.MAX_TEXT_CHARACTERS,
    }


def _head_values(
    campaign: ShownCampaign, model: ReadModel, row: Row, history: cell.CellHistory, attempt: int
) -> dict[str, Any]:
    """What every tab of a cell shows above itself."""
    before, behind = cells.neighbours(model, row)
    with model.lock:
        slots = [slot for slot in slots_of(model) if slot.row is row]
    outcome = history.record.outcome if history.record else None
    return {
        "row": row,
        "slots": slots,
        "silent": silence_of(slots),
        "history": history,
        "outcome": outcome,
        "before": before,
        "behind": behind,
        "attempt": attempt or (history.attempts[-1].attempt if history.attempts else 0),
        "events": [happened.notice_of(event) for event in reversed(history.events)],
    }


def _log_values(campaign: ShownCampaign, history: cell.CellHistory, attempt: int) -> dict[str, Any]:
    """The end of a log."""
    log, number = cell.cell_log(campaign.study, history, attempt or None)
    part = None
    if log is not None:
        try:
            part = logs.last_lines(log)
        except OSError:
            part = None
    return {"part": part, "log_attempt": number}


def samples_values(
    context: Context,
    campaign: ShownCampaign,
    model: ReadModel,
    rows: Sequence[Row],
    group: Group,
    page: int,
) -> dict[str, Any]:
    """What the page of several cells by sample shows."""
    with model.lock:
        others = [one for one in same_question(model, rows[0]) if one.state == "success"]
    same_rows = [one for one in rows if (one.label, one.repeat) == (rows[0].label, rows[0].repeat)]
    problem = "Cells of other questions are left out." if len(same_rows) < len(rows) else ""
    view = None
    if len(same_rows) > 1:
        with context.hold_expensive():
            folders = [cell.folder_of(campaign.study, one) for one in same_rows]
            view = side_by_side(folders, group, page)
        if not view.total and not group:
            problem = (
                "These cells have no sample in common."
                if all(folders)
                else AWAY
                if model.freshness.error
                else "Not all samples of these cells are on this machine; `merge` brings them."
            )
    return {
        "rows": same_rows,
        "ids": [one.id for one in same_rows],
        "others": [one for one in others if one not in same_rows][:MAX_OTHERS],
        "view": view,
        "group": group,
        "problem": problem or ("" if view else "Choose a second cell."),
    }


def _side_values(
    campaign: ShownCampaign,
    model: ReadModel,
    row: Row,
    folder: Path | None,
    other: str,
    group: Group,
    page: int,
) -> dict[str, Any]:
    with model.lock:
        others = [one for one in same_question(model, row) if one.state == "success"]
    chosen = next((one for one in others if one.id == other), others[0] if others else None)
    folders = [folder, cell.folder_of(campaign.study, chosen) if chosen else None]
    view = side_by_side(folders, group, page)
    return {"others": others[:MAX_OTHERS], "other": chosen, "view": view, "group": group}


def _log_at(context: Context, slug: str, id: str, attempt: int) -> Any:
    campaign = context.campaign(slug)
    row = context.row(campaign.view(), id)
    log, _ = cell.cell_log(campaign.study, history_of(campaign, row), attempt or None)
    if log is None:
        raise HTTPException(404, "the log is not on this machine")
    return log
