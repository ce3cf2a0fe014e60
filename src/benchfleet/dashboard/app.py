"""The web application: its routes, its static files, and the guard around them."""

from __future__ import annotations

import mimetypes
from collections.abc import Collection

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp

import benchfleet
from benchfleet.dashboard import actions, api, cell_pages, pages, result_pages, wrong_queries
from benchfleet.dashboard.campaigns import Campaigns
from benchfleet.dashboard.context import Context
from benchfleet.dashboard.foreign import one_line
from benchfleet.dashboard.order_book import OrderBook
from benchfleet.dashboard.render import asset
from benchfleet.dashboard.security import Guard
from benchfleet.dashboard.stream import Streams
from benchfleet.dashboard.tokens import Tokens
from benchfleet.errors import BenchfleetError

ASSETS = (
    "app.css",
    "htmx.min.js",
    "live.js",
    "keys.js",
    "matrix.js",
    "select.js",
    "log.js",
    "curves.js",
    "icon.svg",
)
_MIN_COMPRESSED_BYTES = 1_000
_ASSET_LIFETIME_S = 86_400


def application(
    campaigns: Campaigns,
    tokens: Tokens,
    streams: Streams,
    *,
    hosts: Collection[str],
    private: bool,
) -> ASGIApp:
    """The whole application. `hosts` are the exact Host headers that are served; `private` means
    that reading needs a session too."""
    app = plain_application(campaigns, streams)
    return Guard(app, tokens=tokens, hosts=hosts, private=private)


def plain_application(campaigns: Campaigns, streams: Streams) -> FastAPI:
    """The application without its guard."""
    app = FastAPI(
        title="benchfleet dashboard",
        version=benchfleet.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,
    )
    context = Context(campaigns=campaigns, version=benchfleet.__version__)
    app.add_middleware(GZipMiddleware, minimum_size=_MIN_COMPRESSED_BYTES, compresslevel=5)
    app.include_router(pages.router_of(context))
    app.include_router(cell_pages.router_of(context))
    app.include_router(result_pages.router_of(context))
    app.include_router(api.router_of(context, streams))
    app.include_router(api.states_router(context))
    app.include_router(actions.router_of(context, OrderBook()))
    app.add_exception_handler(BenchfleetError, _unavailable)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_exception_handler(RequestValidationError, wrong_queries.handler_of(context))

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        if name not in ASSETS:
            raise HTTPException(404, "no such file")
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        headers = {"Cache-Control": f"max-age={_ASSET_LIFETIME_S}"}
        return Response(asset(name), media_type=kind, headers=headers)

    return app


def _unavailable(request: Request, error: Exception) -> Response:
    """The ledger or the results cannot be used now."""
    return _answer(request, 503, one_line(error))


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)  # noqa: S101 - it is registered for these
    return _answer(request, error.status_code, str(error.detail))


def _answer(request: Request, status: int, message: str) -> Response:
    if request.url.path.startswith("/api/"):
        return JSONResponse({"detail": message}, status)
    return PlainTextResponse(f"{message}\n", status)
