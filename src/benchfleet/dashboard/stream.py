"""The event stream: at most one message a second for each campaign, the same for every viewer."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import contextmanager
from typing import Any

from benchfleet.dashboard.campaigns import ShownCampaign
from benchfleet.dashboard.foreign import one_line
from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.rows import SHOWN_STATES

MAX_STREAMS = 64
MAX_STREAMS_OF_CLIENT = 8
MESSAGE_INTERVAL_S = 1.0
PING_INTERVAL_S = 15.0
MAX_LISTED_CHANGES = 1_000  # of one message; of more, the viewer reads all states again
STATE_NUMBERS = {state: number for number, state in enumerate(SHOWN_STATES)}


class TooManyStreams(Exception):
    """No more streams are served, in all or to this client."""


class Streams:
    """The open streams of a server."""

    def __init__(self) -> None:
        self._by_client: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._wakers: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    @property
    def count(self) -> int:
        return sum(self._by_client.values())

    def take_place(self, client: str) -> None:
        """Count a stream of this client. Raises TooManyStreams."""
        with self._lock:
            if self.count >= MAX_STREAMS or self._by_client[client] >= MAX_STREAMS_OF_CLIENT:
                raise TooManyStreams
            self._by_client[client] += 1

    def stop(self) -> None:
        """End all streams; called from a signal handler."""
        self._stopped.set()
        for loop, event in list(self._wakers):
            loop.call_soon_threadsafe(event.set)

    async def messages(
        self, campaign: ShownCampaign, cursor: str, client: str
    ) -> AsyncIterator[str]:
        """The stream of one viewer, whose place is taken, from what it has seen last."""
        try:
            model = campaign.watcher.model
            campaign.watcher.enter()
            try:
                with self._woken_by(model) as changed:
                    while not self._stopped.is_set():
                        message = message_since(model, cursor)
                        cursor = message["cursor"]
                        text = json.dumps(message, separators=(",", ":"))
                        yield f"id: {cursor}\ndata: {text}\n\n"
                        await self._pause(MESSAGE_INTERVAL_S)
                        while not changed.is_set() and not self._stopped.is_set():
                            try:
                                await asyncio.wait_for(changed.wait(), PING_INTERVAL_S)
                            except asyncio.TimeoutError:
                                break  # an unchanged message tells that the server is there
                        changed.clear()
            finally:
                campaign.watcher.leave()
        finally:
            with self._lock:
                self._by_client[client] -= 1
                self._by_client += Counter()  # forget clients without a stream

    async def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the end of the server."""
        end = asyncio.get_running_loop().time() + seconds
        while not self._stopped.is_set() and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.1)

    @contextmanager
    def _woken_by(self, model: ReadModel) -> Any:
        """An event that is set at each change of the model, and at the end of the server."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        waker = (loop, changed)
        self._wakers.add(waker)
        stop = model.on_change(lambda: _wake(loop, changed))
        try:
            yield changed
        finally:
            stop()
            self._wakers.discard(waker)


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


def message_since(model: ReadModel, cursor: str) -> dict[str, Any]:
    """What changed since a cursor; with `reset` where that is not known any more."""
    epoch, _, text = cursor.partition(".")
    seen = int(text) if text.isdecimal() and len(text) < 16 else 0
    with model.lock:
        changes = model.changes_since(seen, epoch)
        latest = {change.index: change.state for change in changes or ()}
        reset = changes is None or len(latest) > MAX_LISTED_CHANGES
        freshness = model.freshness
        return {
            "cursor": f"{model.epoch}.{model.version}",
            "results": model.results,
            "changed": reset or model.version != seen,
            "reset": reset,
            "counts": dict(model.counts),
            "cells": []
            if reset
            else [[index, STATE_NUMBERS[state]] for index, state in latest.items()],
            "read_at": round(freshness.read_at, 1),
            "store_age": round(freshness.store_age, 1),
            "error": one_line(freshness.error),
            "reading": 0 if freshness.read_at else model.cells_read,
            "now": round(time.time(), 1),
        }
