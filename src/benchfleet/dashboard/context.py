"""What the routes share: the server's campaigns and limits, and the page that answers a request."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import HTTPException, Request
from starlette.responses import HTMLResponse, Response

from benchfleet.dashboard.campaigns import Campaigns, ShownCampaign
from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.render import Links, render
from benchfleet.dashboard.rows import Row
from benchfleet.domain.state import FINAL_STATES
from benchfleet.errors import LedgerError

MAX_CACHED_PAGES = 64
_CACHE_SLICE_S = 5  # texts such as "40 s ago" are renewed as often
MAX_EXPENSIVE_REQUESTS = 2  # at the same time
_EXPENSIVE_TIMEOUT_S = 30.0


@dataclass
class Context:
    """One server."""

    campaigns: Campaigns
    version: str  # of benchfleet
    _pages: OrderedDict[tuple[Any, ...], str] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    expensive: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(MAX_EXPENSIVE_REQUESTS)
    )

    def campaign(self, slug: str) -> ShownCampaign:
        """The campaign in an address. Raises HTTPException."""
        campaign = self.campaigns.get(slug)
        if campaign is None:
            raise HTTPException(404, "no such campaign on this server")
        return campaign

    def row(self, model: ReadModel, id: str) -> Row:
        """The cell in an address. Raises HTTPException."""
        row = model.by_id.get(id)
        if row is None:
            raise HTTPException(404, "no such cell in this campaign")
        return row

    def page(
        self,
        request: Request,
        campaign: ShownCampaign,
        model: ReadModel,
        template: str,
        values: Callable[[], Mapping[str, Any]],
        *,
        page: str,
        depth: int = 0,
        status: int = 200,
        cached: bool = True,
    ) -> Response:
        """A page of a campaign; rendered once for all viewers until something changes."""
        may_order = bool(request.state.may_order)
        cached = cached and bool(model.freshness.read_at)
        path, query = request.url.path, request.url.query
        moment = int(time.time() // _CACHE_SLICE_S)
        key = (path, query, may_order, model.epoch, model.version, moment)
        if cached:
            with self._lock:
                if key in self._pages:
                    return HTMLResponse(self._pages[key], status)
        text = render(
            template,
            {
                **frame_values(campaign, model, Links(depth), page, may_order=may_order),
                "campaigns": self.campaigns.names,
                "query": query,
                "app_version": self.version,
                **values(),
            },
        )
        if cached:
            with self._lock:
                self._pages[key] = text
                while len(self._pages) > MAX_CACHED_PAGES:
                    self._pages.popitem(last=False)
        return HTMLResponse(text, status)

    def page_of_results(
        self,
        request: Request,
        campaign: ShownCampaign,
        template: str,
        values: Callable[[], Mapping[str, Any]],
        page: str,
    ) -> Response:
        """A page for which the ledger is read; while it is away, one that says so."""
        model = campaign.watcher.model
        try:
            return self.page(request, campaign, model, template, values, page=page)
        except LedgerError:
            return self.page(
                request, campaign, model, "away.html.j2", dict, page=page, cached=False
            )

    def hold_expensive(self) -> ExpensiveRequest:
        """Wait until few enough expensive requests are at work. Raises HTTPException on entry."""
        return ExpensiveRequest(self.expensive)


@dataclass
class ExpensiveRequest:
    """One of the few expensive requests, for a block."""

    semaphore: threading.Semaphore

    def __enter__(self) -> None:
        if not self.semaphore.acquire(timeout=_EXPENSIVE_TIMEOUT_S):
            raise HTTPException(503, "busy with other requests; try again in a minute")

    def __exit__(self, *_error: object) -> None:
        self.semaphore.release()


def frame_values(
    campaign: ShownCampaign, model: ReadModel, links: Links, page: str, *, may_order: bool
) -> dict[str, Any]:
    """What the frame around every page shows."""
    counts = dict(model.counts)
    total = sum(counts.values())
    return {
        "campaign": campaign.name,
        "slug": campaign.slug,
        "links": links,
        "page": page,
        "may_order": may_order,
        "counts": counts,
        "total": total,
        "ended": sum(counts.get(state, 0) for state in FINAL_STATES),
        "failed_count": counts.get("failed", 0) + counts.get("partial", 0),
        "freshness": model.freshness,
        "cells_read": model.cells_read,
        "cursor": f"{model.epoch}.{model.version}",
        "results": model.results,
        "made_at": time.time(),
        "ledger": campaign.study.ledger_text,
    }
