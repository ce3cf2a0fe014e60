"""What a wrong query is answered: JSON by the API, by a page a page that says what is wrong."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request
from fastapi.exception_handlers import request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from benchfleet.dashboard.context import Context


def handler_of(context: Context) -> Callable[[Request, Any], Awaitable[Response]]:
    """The handler of requests with a wrong query or form."""

    async def answer(request: Request, error: RequestValidationError) -> Response:
        slug = request.path_params.get("slug", "")
        if slug not in context.campaigns.names:
            return await request_validation_exception_handler(request, error)
        return await run_in_threadpool(page, request, slug, error)

    def page(request: Request, slug: str, error: RequestValidationError) -> Response:
        campaign = context.campaign(slug)
        return context.page(
            request,
            campaign,
            campaign.view_soon(),
            "wrong_query.html.j2",
            lambda: {"problems": [_problem(one) for one in error.errors()]},
            page="",
            depth=request.url.path.count("/") - 3,  # below /c/SLUG/
            status=422,
            cached=False,
        )

    return answer


def _problem(one: dict[str, Any]) -> tuple[str, str, str]:
    """The name of a parameter, its value, and what it should be."""
    name = next((part for part in reversed(one["loc"]) if isinstance(part, str)), "")
    if one["type"] == "missing":
        return name, "", "it is missing"
    value = one["input"] if isinstance(one["input"], str) else ""
    return name, value, re.sub(r"^(Input|String|List|Value) ", "it ", str(one["msg"]))
