"""The client: many requests to one endpoint, each retried while its failure may pass."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from benchfleet.errors import CellFailure
from benchfleet.models.served.endpoint import Endpoint
from benchfleet.models.served.limit import AdaptiveLimit
from benchfleet.models.served.refusals import (
    RETRIED_STATUSES,
    aborted_answer,
    is_cut_off,
    is_of_one_request,
    is_quota_spent,
    lacks_template,
    refusal,
    unreadable_reply,
)
from benchfleet.models.served.refusals import retry_after_s as parse_retry_after

MAX_TRIES = 5  # of one request
MAX_RETRY_AFTER_S = 60.0  # a server that asks for more ends the cell
REACH_TIMEOUT_S = 10.0  # of a look whether the server is there
FIRST_DELAY_S, MAX_DELAY_S = 0.5, 30.0
_ONCE = 500  # a status that is retried once


@dataclass(frozen=True, kw_only=True)
class HealthWatch:
    """How the client sees that a server of our own died, or stopped answering."""

    is_alive: Callable[[], bool]
    is_healthy: Callable[[], bool]  # may take seconds
    every_s: float = 30.0
    most_failures: int = 2  # in a row, while no request is answered


_Read = Callable[[aiohttp.ClientResponse], Awaitable[Any]]


class _NotJson(Exception):
    """A reply is no JSON; the argument is its text."""


async def _json(reply: aiohttp.ClientResponse) -> Any:
    text = await reply.text(errors="replace")
    try:
        return json.loads(text)
    except ValueError as error:
        raise (_cut_off() if is_cut_off(text) else _NotJson(text)) from error


async def _text(reply: aiohttp.ClientResponse) -> str:
    text = await reply.text(errors="replace")
    if is_cut_off(text):
        raise _cut_off()
    return text


def _cut_off() -> aiohttp.ClientPayloadError:
    return aiohttp.ClientPayloadError("its reply ends within its JSON")


class Client:
    """Asks one endpoint, in the calling thread; `close` ends its connections."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        adapts: bool = True,  # False: all `requests_at_once` from the beginning
        watch: HealthWatch | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._endpoint, self._watch, self._uniform = endpoint, watch, uniform
        self.answered = 0  # requests
        self.limit = AdaptiveLimit(endpoint.requests_at_once, adapts=adapts)
        self._failures: list[CellFailure] | None = None  # of the `post_each` under way
        self._loop = asyncio.new_event_loop()
        self._session = self._loop.run_until_complete(self._open())

    async def _open(self) -> aiohttp.ClientSession:
        key = self._endpoint.key
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=aiohttp.ClientTimeout(total=None),  # each request has one of its own
            trust_env=not self._endpoint.is_local,
        )

    @property
    def url(self) -> str:
        return self._endpoint.url

    def close(self) -> None:
        self._loop.run_until_complete(self._session.close())
        self._loop.close()

    def post_text(self, path: str, body: Mapping[str, Any]) -> str:
        """The text of one reply, such as a whole stream. Raises CellFailure."""

        async def send() -> str:
            async with self.limit.one() as cuts:
                return str(await self._post(path, body, cuts, _text))

        return self._loop.run_until_complete(send())

    def get(self, path: str) -> Any:
        """The JSON at a path; None if the server has no such page."""
        return self._loop.run_until_complete(self._get(path))

    def reaches(self, path: str) -> bool:
        """Whether the server answers at a path, whatever it says."""
        return self._loop.run_until_complete(self._reach(path)) is None

    def is_refused(self, path: str) -> bool:
        """Whether no connection to the server can be made."""
        return isinstance(
            self._loop.run_until_complete(self._reach(path)), aiohttp.ClientConnectorError
        )

    async def _reach(self, path: str) -> Exception | None:
        timeout = aiohttp.ClientTimeout(total=REACH_TIMEOUT_S)
        try:
            async with self._session.get(self._endpoint.url + path, timeout=timeout):
                return None
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            return error

    async def _get(self, path: str) -> Any:
        timeout = aiohttp.ClientTimeout(total=min(60.0, self._endpoint.timeout_s))
        try:
            async with self._session.get(self._endpoint.url + path, timeout=timeout) as reply:
                if reply.status in (401, 403):
                    raise refusal(reply.status, await reply.text(), where=self._endpoint.url)
                return await reply.json(content_type=None) if reply.status == 200 else None
        except (aiohttp.ClientError, ValueError):
            return None
        except asyncio.TimeoutError:
            return None

    def post_each(
        self, path: str, bodies: Iterable[Mapping[str, Any]], *, keeps_errors: bool = False
    ) -> Generator[tuple[int, Any], None, None]:
        """Each reply's JSON as it comes, with the position of its body.

        After a failure no further request is sent. The replies of those under way are given before
        the CellFailure is raised. With `keeps_errors`, a refusal of one request alone is given in
        place of its reply, as the `RefusedRequest`. Closing the generator ends what is under way.
        """
        replies: asyncio.Queue[tuple[int, Any] | None] = asyncio.Queue()
        waiting = iter(enumerate(bodies))
        self._failures = failures = list[CellFailure]()

        async def send() -> None:
            while not failures:
                async with self.limit.one() as cuts:
                    if failures or (following := next(waiting, None)) is None:
                        return
                    position, body = following
                    try:
                        replies.put_nowait((position, await self._post(path, body, cuts)))
                    except CellFailure as error:
                        if keeps_errors and is_of_one_request(error):
                            replies.put_nowait((position, error))
                        else:
                            failures.append(error)

        async def send_all() -> None:
            try:
                await asyncio.gather(*(send() for _ in range(self._endpoint.requests_at_once)))
            finally:
                replies.put_nowait(None)

        async def watch_over(sending: asyncio.Task[None], watch: HealthWatch) -> None:
            await self._until_unhealthy(watch)
            message = f"{self._endpoint.url} stopped answering"
            failures.insert(
                0,
                CellFailure(stage="benchmark", kind="server_died", message=message, retryable=True),
            )
            sending.cancel()

        sending = self._loop.create_task(send_all())
        tasks = [sending]
        if self._watch:
            tasks.append(self._loop.create_task(watch_over(sending, self._watch)))
        try:
            while (reply := self._loop.run_until_complete(replies.get())) is not None:
                yield reply
            if failures:
                raise failures[0]
            self._loop.run_until_complete(sending)
        finally:
            self._failures = None
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    def end_asking(self, failure: CellFailure) -> bool:
        """Let the `post_each` under way end as after this failure; False if there is none."""
        if self._failures is not None:
            self._failures.append(failure)
        return self._failures is not None

    async def _until_unhealthy(self, watch: HealthWatch) -> None:
        """Return once the server died, or failed health checks in a row without an answer."""
        failures, answered = 0, self.answered
        while failures < watch.most_failures and watch.is_alive():
            await asyncio.sleep(watch.every_s)
            healthy = await asyncio.to_thread(watch.is_healthy)
            healthy = healthy or self.answered > answered
            failures, answered = 0 if healthy else failures + 1, self.answered

    async def _post(
        self, path: str, body: Mapping[str, Any], cuts: int, read: _Read = _json
    ) -> Any:
        tried = self._tried(path, body, cuts, read)
        try:
            return await asyncio.wait_for(tried, self._endpoint.timeout_s)
        except asyncio.TimeoutError:
            seconds = self._endpoint.timeout_s
            raise CellFailure(
                stage="benchmark",
                kind="timeout",
                message=f"{self._endpoint.url} did not answer a request in {seconds:g} s; "
                "raise the model's timeout",
                retryable=True,
            ) from None

    async def _tried(self, path: str, body: Mapping[str, Any], cuts: int, read: _Read) -> Any:
        statuses: list[int] = []
        while True:
            delay: float | None = None
            failure: CellFailure
            try:
                async with self._session.post(self._endpoint.url + path, json=body) as reply:
                    if reply.status == 200:
                        value = await read(reply)
                        self.limit.succeeded()
                        self.answered += 1
                        if (aborted := aborted_answer(value, where=self._endpoint.url)) is None:
                            return value
                        failure, text = aborted, ""
                    else:
                        text = await reply.text()
                        failure = refusal(reply.status, text, where=self._endpoint.url)
                    statuses.append(reply.status)
                    if reply.status == 429:
                        self.limit.limited(cuts)
                    if not self._may_retry(statuses, text):
                        raise failure
                    delay = parse_retry_after(reply.headers.get("Retry-After"))
            except (aiohttp.ClientError, OSError) as error:
                statuses.append(0)
                failure = self._broken(error)
                if len(statuses) >= MAX_TRIES or not self._may_come_back():
                    raise failure from error
            except _NotJson as error:
                url = self._endpoint.url
                raise unreadable_reply(str(error), "it is no JSON", where=url) from error
            if delay is not None and delay > MAX_RETRY_AFTER_S:
                raise CellFailure(
                    stage="benchmark",
                    kind=failure.kind,
                    message=f"{failure}; it asks to come back in {delay:.0f} s",
                    retryable=True,
                    retry_after_s=delay,
                )
            await asyncio.sleep(self._delay(len(statuses)) if delay is None else delay)

    def _may_retry(self, statuses: Sequence[int], body: str) -> bool:
        status = statuses[-1]
        if status not in {200, *RETRIED_STATUSES} or is_quota_spent(body) or lacks_template(body):
            return False
        return len(statuses) < (2 if status == _ONCE else MAX_TRIES)

    def _may_come_back(self) -> bool:
        return self._watch is None or self._watch.is_alive()

    def _delay(self, tries: int) -> float:
        """Full jitter below a limit that doubles with each try."""
        return self._uniform(0.0, min(MAX_DELAY_S, FIRST_DELAY_S * 2.0**tries))

    def _broken(self, error: Exception) -> CellFailure:
        detail = str(error).replace(" ssl:default", "") or type(error).__name__
        return CellFailure(
            stage="benchmark",
            kind="server_unavailable",
            message=f"no answer from {self._endpoint.url}: {detail}",
            retryable=True,
        )
