"""The routes of orders: a page that says what an order would do, and the order itself."""

from __future__ import annotations

import secrets
from typing import Annotated, Literal

from fastapi import APIRouter, Form, HTTPException, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from benchfleet.dashboard.context import Context
from benchfleet.dashboard.foreign import visible
from benchfleet.dashboard.order_book import OrderBook, Receipt
from benchfleet.dashboard.order_targets import TITLES, OrderTarget, RefusedOrder, Verb, target_of

MAX_LISTED_CELLS = 20
_KEY = r"[A-Za-z0-9_-]{8,64}"
IDS = {"cell", "group", "runner", "device", "host", "phase"}
Id = Annotated[str, Query(max_length=300)]
FormId = Annotated[str, Form(max_length=300)]
FormKey = Annotated[str, Form(pattern=f"^{_KEY}$")]


class OrderRequest(BaseModel):
    """An order: a verb, ids of what it is about, and a key of your own that lets it act once."""

    campaign: str = Field(default="", max_length=300)
    verb: Verb
    key: str = Field(pattern=f"^{_KEY}$")
    cell: str = Field(default="", max_length=300)
    group: str = Field(default="", max_length=300)
    runner: str = Field(default="", max_length=300)
    device: str = Field(default="", max_length=300)
    host: str = Field(default="", max_length=300)
    phase: str = Field(default="", max_length=300)


class OrderAnswer(BaseModel):
    """What came of an order."""

    state: Literal["done", "repeated"]
    by: str
    at: float
    cells: list[str]
    answers: list[str]
    refused: list[str]


def router_of(context: Context, book: OrderBook) -> APIRouter:
    """The routes of orders."""
    router = APIRouter()

    @router.get("/c/{slug}/order", include_in_schema=False)
    def order_page(
        request: Request,
        slug: str,
        verb: Verb,
        cell: Id = "",
        group: Id = "",
        runner: Id = "",
        device: Id = "",
        host: Id = "",
        phase: Id = "",
    ) -> Response:
        campaign = context.campaign(slug)
        model = campaign.view()
        ids = {"cell": cell, "group": group, "runner": runner}
        ids |= {"device": device, "host": host, "phase": phase}
        target: OrderTarget | None = None
        refusal = ""
        try:
            target = target_of(campaign, model, verb, ids)
        except RefusedOrder as error:
            refusal = str(error)
        return context.page(
            request,
            campaign,
            model,
            "order.html.j2",
            lambda: {
                "verb": verb,
                "title": TITLES[verb],
                "target": target,
                "refusal": refusal,
                "key": secrets.token_urlsafe(18),
                "most": MAX_LISTED_CELLS,
            },
            page="overview",
            cached=False,
        )

    @router.post("/c/{slug}/orders", include_in_schema=False)
    def give_order(
        request: Request,
        slug: str,
        verb: Annotated[Verb, Form()],
        key: FormKey,
        cell: FormId = "",
        group: FormId = "",
        runner: FormId = "",
        device: FormId = "",
        host: FormId = "",
        phase: FormId = "",
    ) -> Response:
        campaign = context.campaign(slug)
        model = campaign.view()
        ids = {"cell": cell, "group": group, "runner": runner}
        ids |= {"device": device, "host": host, "phase": phase}
        receipt: Receipt | None = book.receipt(key)
        refusal = ""
        try:
            if receipt is None:
                receipt = book.give(campaign, target_of(campaign, model, verb, ids), key)
        except RefusedOrder as error:
            refusal = str(error)
        return context.page(
            request,
            campaign,
            model,
            "receipt.html.j2",
            lambda: {
                "title": TITLES[verb],
                "receipt": receipt,
                "refusal": refusal,
                "most": MAX_LISTED_CELLS,
            },
            page="overview",
            status=409 if refusal else 200,
            cached=False,
        )

    @router.post(
        "/api/orders",
        responses={
            400: {"description": "the body cannot be read"},
            403: {"description": "no session, or another origin"},
            404: {"description": "no such campaign"},
            409: {"description": "nothing to act on"},
            413: {"description": "the body is too large"},
        },
    )
    def order(order: OrderRequest) -> OrderAnswer:
        """Give an order. Send a bearer token, or the cookie of a session with the same origin."""
        names = context.campaigns.names
        if not order.campaign and len(names) > 1:
            raise HTTPException(404, "this server shows several campaigns; name one")
        campaign = context.campaign(order.campaign or next(iter(names), ""))
        receipt = book.receipt(order.key)
        if receipt is None:
            ids = order.model_dump(include=IDS)
            try:
                target = target_of(campaign, campaign.view(), order.verb, ids)
                receipt = book.give(campaign, target, order.key)
            except RefusedOrder as error:
                raise HTTPException(409, str(error)) from None
        return OrderAnswer(
            state="repeated" if receipt.repeated else "done",
            by=visible(receipt.by),
            at=receipt.at,
            cells=[visible(path) for path in receipt.cells],
            answers=[visible(one) for one in receipt.answers],
            refused=[visible(one) for one in receipt.refused],
        )

    return router
