"""HTTP requests to a provider: the key in one header, limits, and errors by what they mean."""

from __future__ import annotations

import email.utils
import hashlib
import random
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2

from benchfleet.providers.base import (
    BadRequest,
    CreateUnknown,
    NoCredit,
    NotAuthorized,
    OfferGone,
    ProviderAway,
    ProviderError,
    RateLimited,
)
from benchfleet.providers.limiter import Limiter
from benchfleet.providers.secret import Secret

_TIMEOUT = httpx2.Timeout(60.0, connect=10.0)
_TRIES = 5  # of a request that may be repeated
_PAUSE_S, _MAX_PAUSE_S = 1.0, 16.0
_SHOWN_CHARACTERS = 200  # of a body, in an error
DEFINITE = (NotAuthorized, NoCredit, RateLimited)  # by their status alone: nothing was done
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Reply:
    """The answer to a request."""

    def __init__(self, status: int, data: Any, text: str, at: float | None) -> None:
        self.status, self.data, self.text, self.at = status, data, text, at


class _KeyHeader(httpx2.Auth):
    """Puts the key into the Authorization header, and nowhere else."""

    def __init__(self, key: Secret) -> None:
        self._key = key

    def auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._key.reveal()}"
        yield request


class ApiClient:
    """Requests to one API with one key. Follows no redirect, since that may leave the host."""

    def __init__(
        self,
        url: str,
        key: Secret,
        limiter: Limiter,
        *,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise BadRequest(f"{url}: the key is sent over https only; write an https address")
        self.url, self._key, self._limiter, self._sleep = url.rstrip("/"), key, limiter, sleep
        self._client = httpx2.Client(
            base_url=self.url,
            auth=_KeyHeader(key),
            timeout=_TIMEOUT,
            follow_redirects=False,
            transport=transport,
            trust_env=transport is None and parts.hostname not in _LOOPBACK,
        )

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    @property
    def key_digest(self) -> str:
        """What stands for the account where the provider names no user."""
        return hashlib.sha256(self._key.reveal().encode()).hexdigest()[:8]

    def once(self, endpoint: str, method: str, path: str, **options: Any) -> Reply:
        """Send one request. Raises ProviderAway if it is not known what came of it."""
        with self._limiter.request(endpoint):
            try:
                response = self._client.request(method, path, **options)
            except httpx2.HTTPError as error:
                reason = str(error) or type(error).__name__
                message = (
                    f"{self.url} cannot be reached ({reason}); look at the network and its 'url'"
                )
                raise ProviderAway(self._redacted(message)) from None
        try:
            data = response.json()
        except ValueError:
            data = None
        return Reply(response.status_code, data, response.text, _seconds(response.headers))

    def repeated(self, endpoint: str, method: str, path: str, **options: Any) -> Reply:
        """Send a request that is safe to repeat until it is answered. Raises ProviderError."""
        for number in range(1, _TRIES + 1):
            try:
                reply = self.once(endpoint, method, path, **options)
                if error := self.error(endpoint, reply):
                    raise error
                if reply.data is None:
                    raise ProviderAway(f"{self.url}{path} answered something that is not JSON")
                return reply
            except RateLimited as error:
                last: ProviderError = error
                pause = error.pause_s
            except ProviderAway as error:
                last = error
                pause = min(_PAUSE_S * 2 ** (number - 1), _MAX_PAUSE_S)
                pause *= random.uniform(0.5, 1.0)  # noqa: S311
            if number < _TRIES:
                self._sleep(pause)
        raise last

    def create(self, method: str, path: str, body: Mapping[str, Any]) -> Reply:
        """Send one request that may create an instance. Raises CreateUnknown without an answer."""
        try:
            return self.once("create", method, path, json=body)
        except ProviderAway as error:
            raise CreateUnknown(str(error)) from None

    def refusal(self, reply: Reply, *, sold_out: bool) -> ProviderError:
        """What a refusal to create means. What has no known form may have created something."""
        error = self.error("create", reply)
        if sold_out:
            return OfferGone(str(error) if error else "no such machine is left")
        if isinstance(error, DEFINITE):
            return error
        if error is None or isinstance(error, ProviderAway) or reply.data is None:
            return CreateUnknown(str(error or "the answer cannot be read"))
        return error

    def destroy(self, path: str, *, missing: str = "") -> Reply | None:
        """Ask for the end of an instance; None without one: 404, or the text `missing`."""
        reply = self.once("destroy", "DELETE", path)
        if reply.status == 404 or (missing and missing in reply.text):
            return None
        if error := self.error("destroy", reply):
            raise error
        return reply

    def error(self, endpoint: str, reply: Reply) -> ProviderError | None:
        """What a refusal means; None if there was none."""
        message = self._redacted(f"{self.url}: {reply.status} {reply.text[:_SHOWN_CHARACTERS]}")
        if reply.status == 429:
            pause = self._limiter.refused(endpoint, reply.text)
            return RateLimited(message, pause)
        if reply.status in (401, 403):
            return NotAuthorized(message)
        if reply.status == 402 or (reply.status >= 400 and "insufficient" in reply.text.lower()):
            return NoCredit(message)
        if reply.status >= 500 or 300 <= reply.status < 400:
            return ProviderAway(message)
        return BadRequest(message) if reply.status >= 400 else None

    def _redacted(self, text: str) -> str:
        return self._key.redact(text)


def _seconds(headers: Mapping[str, str]) -> float | None:
    """The time of the answer by the provider's clock, in seconds since the epoch."""
    date = email.utils.parsedate_tz(headers.get("date", ""))
    return None if date is None else float(email.utils.mktime_tz(date))
