"""The rules that every request passes before routing: host, origin, session and headers.

Default deny: any method but GET, HEAD and OPTIONS needs a session and the same origin. A test walks
all routes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchfleet.dashboard.tokens import SESSION_LIFETIME_S, Tokens

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
TOKEN_PARAMETER = "token"  # noqa: S105 - its name
_BEARER = "bearer "
MAX_BODY_BYTES = 65_536


class Guard:
    """Refuses what the rules refuse, and adds the headers to every answer.

    `hosts` are the exact values of the Host header that are served. `private` means that reading
    needs a session too.
    """

    def __init__(
        self, app: ASGIApp, *, tokens: Tokens, hosts: Collection[str], private: bool
    ) -> None:
        self._app, self._tokens, self._private = app, tokens, private
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        answer = refusal or self._spent_link(scope)
        if answer is None:
            if scope["method"] == "HEAD" and not scope["path"].endswith("/stream"):  # it never ends
                scope = {**scope, "method": "GET"}
            await self._app(scope, receive, send_with_headers)
        else:
            await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a request that is not served; None for one that is."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return _refuse(400, "unknown Host header: add it with --trusted-host, if it is yours")
        cookie, bearer = self._sessions(headers)
        scope.setdefault("state", {})["may_order"] = cookie or bearer
        if scope["method"] in READING_METHODS:
            has_link = TOKEN_PARAMETER in dict(parse_qsl(scope["query_string"].decode("latin-1")))
            is_public = scope["path"].startswith("/static/")
            if self._private and not (cookie or bearer or has_link or is_public):
                return _refuse(401, "open the link that `benchfleet dashboard` printed")
            return None
        length = headers.get("content-length", "0")
        if (
            not length.isdecimal()
            or int(length) > MAX_BODY_BYTES
            or ("transfer-encoding" in headers)
        ):
            return _refuse(413, f"send at most {MAX_BODY_BYTES} bytes, with a Content-Length")
        if not (bearer or self._is_same_origin(headers, hosts[0])):
            return _refuse(403, "this request came from another site")
        if not (cookie or bearer):
            return _refuse(403, "read-only: open the link that `benchfleet dashboard` printed")
        return None

    def _is_same_origin(self, headers: Headers, host: str) -> bool:
        origin = headers.get("origin")
        if origin is not None:
            return urlsplit(origin).netloc.lower() == host.lower()
        return headers.get("sec-fetch-site") == "same-origin"

    def _sessions(self, headers: Headers) -> tuple[bool, bool]:
        """Whether the request has the cookie of a session, and a bearer token."""
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load(headers.get("cookie", ""))
        except CookieError:
            jar.clear()
        morsel = jar.get(self._tokens.cookie)
        cookie = morsel is not None and self._tokens.is_session(morsel.value)
        authorization = headers.get("authorization", "")
        is_bearer = authorization.lower().startswith(_BEARER)
        bearer = is_bearer and self._tokens.is_session(authorization[len(_BEARER) :].strip())
        return cookie, bearer

    def _spent_link(self, scope: Scope) -> Response | None:
        """The answer to a one-time link: a session, and the same address without the token."""
        if scope["method"] != "GET":
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = dict(query).get(TOKEN_PARAMETER)
        if token is None:
            return None
        if not self._tokens.spend(token):
            return _refuse(
                403,
                "this link was used before, or is older than 15 minutes; get another one:"
                f" benchfleet dashboard --link --port {self._tokens.port}",
            )
        rest = urlencode([(name, value) for name, value in query if name != TOKEN_PARAMETER])
        last = scope["path"].rpartition("/")[2]
        answer = RedirectResponse(f"./{last}" + (f"?{rest}" if rest else ""), status_code=303)
        answer.set_cookie(
            self._tokens.cookie,
            self._tokens.session(),
            max_age=int(SESSION_LIFETIME_S),
            httponly=True,
            samesite="lax",
        )
        return answer


def _refuse(status: int, message: str) -> Response:
    return PlainTextResponse(f"{message}\n", status_code=status)


def allowed_hosts(host: str, port: int, trusted: Iterable[str]) -> list[str]:
    """The exact Host headers that are served: those of the address, and the trusted ones, which
    may have a port."""
    own = (
        {"127.0.0.1", "localhost", "[::1]"} if host in ("127.0.0.1", "localhost", "::1") else set()
    )
    if host not in ("0.0.0.0", "::"):  # noqa: S104 - it is refused
        own.add(f"[{host}]" if ":" in host else host)
    served = [f"{name}:{port}" for name in sorted(own)]
    if port in (80, 443):
        served += sorted(own)
    for name in trusted:
        served += [name, f"{name}:{port}"]
    return served
