"""The routes of orders: a page that says what an order would do, and the order itself."""

from __future__ import annotations

import secrets
from typing import Annotated, Literal

from fastapi import APIRouter, Form, HTTPException, Query, Request
from pydantic import BaseModel, Field, model_validator
from starlette.responses import Response

from benchfleet.dashboard.context import Context
from benchfleet.dashboard.foreign import visible
from benchfleet.dashboard.order_book import OrderBook, Receipt
from benchfleet.dashboard.order_names import KEY, MAX_CHOSEN, KeyedNames, Name, OrderNames, Verb
from benchfleet.dashboard.order_targets import TITLES, OrderTarget, RefusedOrder, target_of

MAX_LISTED_CELLS = 20


class OrderRequest(BaseModel):
    """An order: a verb, ids of what it is about, and a key of your own that lets it act once."""

    campaign: Name = ""
    verb: Verb
    key: str = Field(pattern=KEY)
    cell: Name = ""
    cells: list[Name] = Field(default=[], max_length=MAX_CHOSEN)
    group: Name = ""
    runner: Name = ""
    device: Name = ""
    host: Name = ""
    phase: Name = ""

    @property
    def names(self) -> OrderNames:
        """What the order is about."""
        same = self.model_dump(exclude={"campaign", "key", "cell", "cells"})
        return OrderNames(cell=self._ids, **same)

    @property
    def _ids(self) -> list[str]:
        return [id for id in dict.fromkeys((self.cell, *self.cells)) if id]

    @model_validator(mode="after")
    def _check_number(self) -> OrderRequest:
        if len(self._ids) > MAX_CHOSEN:
            raise ValueError(f"cell and cells name too many: use at most {MAX_CHOSEN}")
        return self


class OrderAnswer(BaseModel):
    """What came of an order."""

    state: Literal["done", "repeated"]
    by: str
    at: float
    answered_at: float | None  # when the last runner accepted or refused it; null if none did
    cells: list[str]
    answers: list[str]
    refused: list[str]


def router_of(context: Context, book: OrderBook) -> APIRouter:
    """The routes of orders."""
    router = APIRouter()

    @router.get("/c/{slug}/order", include_in_schema=False)
    def order_page(request: Request, slug: str, named: Annotated[OrderNames, Query()]) -> Response:
        campaign = context.campaign(slug)
        model = campaign.view()
        target: OrderTarget | None = None
        refusal = ""
        try:
            target = target_of(campaign, model, named)
        except RefusedOrder as error:
            refusal = str(error)
        return context.page(
            request,
            campaign,
            model,
            "order.html.j2",
            lambda: {
                "verb": named.verb,
                "title": TITLES[named.verb],
                "target": target,
                "fields": list(named.fields()),
                "refusal": refusal,
                "key": secrets.token_urlsafe(18),
                "most": MAX_LISTED_CELLS,
            },
            page="overview",
            cached=False,
        )

    @router.post("/c/{slug}/order", include_in_schema=False)
    def order_page_of_many(
        request: Request, slug: str, named: Annotated[OrderNames, Form()]
    ) -> Response:
        """The same page; many cells do not fit into an address."""
        return order_page(request, slug, named)

    @router.post("/c/{slug}/orders", include_in_schema=False)
    def give_order(request: Request, slug: str, named: Annotated[KeyedNames, Form()]) -> Response:
        campaign = context.campaign(slug)
        model = campaign.view()
        receipt: Receipt | None = book.receipt(named.key)
        refusal = ""
        try:
            if receipt is None:
                receipt = book.give(campaign, target_of(campaign, model, named), named.key)
        except RefusedOrder as error:
            refusal = str(error)
        return context.page(
            request,
            campaign,
            model,
            "receipt.html.j2",
            lambda: {
                "title": TITLES[named.verb],
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
            try:
                target = target_of(campaign, campaign.view(), order.names)
                receipt = book.give(campaign, target, order.key)
            except RefusedOrder as error:
                raise HTTPException(409, str(error)) from None
        return OrderAnswer(
            state="repeated" if receipt.repeated else "done",
            by=visible(receipt.by),
            at=receipt.at,
            answered_at=receipt.answered_at,
            cells=[visible(path) for path in receipt.cells],
            answers=[visible(one) for one in receipt.answers],
            refused=[visible(one) for one in receipt.refused],
        )

    return router
