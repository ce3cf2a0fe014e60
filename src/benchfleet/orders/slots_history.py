"""The last orders to the slots of each runner: by whom and when, and when the runner answered."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from benchfleet.domain.event import Event
from benchfleet.domain.slots import ANSWERED, REQUESTED, Answer, answer_of

ORDER_EVENTS = (REQUESTED, ANSWERED)
MAX_KEPT_ORDERS = 5  # of one runner


@dataclass(frozen=True, kw_only=True)
class SlotsOrder:
    """An order to the slots of a runner, as the ledger has it."""

    runner: str
    request: int  # the number of its event
    action: str
    devices: tuple[str, ...]
    by: str  # a person at a host; "" where that is not known
    at: float  # seconds since the epoch by the ledger's clock
    answer: Answer | None = None  # None until the runner answers

    def sentence(self, host: str = "") -> str:
        """``drain gpu:0: ordered by me@lab1 2026-01-31 14:02:00, accepted by lab2 14:02:07``"""
        by = f" by {self.by}" if self.by else ""
        ordered = f"{self.action} {' '.join(self.devices)}: ordered{by} {_clock(self.at)}"
        if self.answer is None:
            return f"{ordered}, not answered yet"
        at = _clock(self.answer.at)
        if at[:10] == _clock(self.at)[:10]:
            at = at[11:]
        answered = f"{self.answer.verdict}{f' by {host}' if host else ''} {at}"
        return ": ".join((f"{ordered}, {answered}", *self.answer.refused))

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "action": self.action,
            "devices": list(self.devices),
            "by": self.by,
            "ordered_at": self.at,
            "answered_at": self.answer.at if self.answer else None,
            "verdict": self.answer.verdict if self.answer else None,
        }


class SlotsHistory:
    """The last orders to each runner, as a fold of the ledger's events."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._orders: dict[str, deque[SlotsOrder]] = {}
        for event in events:
            self.take(event)

    def of(self, runner: str) -> list[SlotsOrder]:
        """The last orders to a runner, the newest first."""
        return list(reversed(self._orders.get(runner, ())))

    def take(self, event: Event) -> None:
        """Follow an event of `ORDER_EVENTS`."""
        data = event.data
        runner = str(data.get("runner", ""))
        if event.kind == REQUESTED and data.get("action") != "list":
            order = SlotsOrder(
                runner=runner,
                request=event.seq,
                action=str(data.get("action", "")),
                devices=tuple(map(str, data.get("devices", ()))),
                by=str(data.get("by", "")),
                at=event.at,
            )
            self._orders.setdefault(runner, deque(maxlen=MAX_KEPT_ORDERS)).append(order)
        elif event.kind == ANSWERED:
            orders = self._orders.get(runner, ())
            for number, order in enumerate(orders):
                if order.request == data.get("asked"):
                    orders[number] = replace(order, answer=answer_of(event))  # type: ignore[index]


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
