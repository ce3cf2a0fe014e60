"""Orders to slots are listed with their givers and the times at which runners answered."""

from __future__ import annotations

import re

import pytest

from benchfleet.domain.event import Event
from benchfleet.domain.slots import REQUESTED, Answer, SlotsCommand, device_name
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.orders.base import Origin
from benchfleet.orders.slots import send
from benchfleet.orders.slots_history import MAX_KEPT_ORDERS, ORDER_EVENTS, SlotsHistory
from benchfleet.testing.clock import FakeClock

DRAIN = SlotsCommand(action="drain", devices=(device_name("gpu:0"), device_name("gpu:1")))
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


@pytest.mark.parametrize(
    ("done", "refused", "verdict"),
    [
        (("gpu:0 is drained",), (), "accepted"),
        ((), ("no gpu:0",), "refused"),
        (("gpu:0 is drained",), ("no gpu:1",), "partly refused"),
    ],
)
def test_an_order_has_the_time_of_its_answer(
    done: tuple[str, ...], refused: tuple[str, ...], verdict: str
) -> None:
    clock = FakeClock()
    ledger = MemoryLedger(clock=clock)
    request = send(ledger, DRAIN, "one", Origin(by="me@desk"))
    send(ledger, SlotsCommand(action="list"), "one", Origin(by="me@desk"))
    history = SlotsHistory(ledger.events(kinds=ORDER_EVENTS))
    (order,) = history.of("one")
    assert re.fullmatch(
        f"drain gpu:0 gpu:1: ordered by me@desk {TIME}, not answered yet", order.sentence()
    )
    clock.advance(7)
    answer = Answer(runner="one", request=request, done=done, refused=refused)
    ledger.record(answer.event())
    history.take(ledger.events(kinds=ORDER_EVENTS)[-1])
    (order,) = history.of("one")
    values = order.to_dict()
    assert values["answered_at"] - values["ordered_at"] == 7
    assert values["verdict"] == verdict
    messages = "".join(f": {message}" for message in refused)
    assert re.fullmatch(
        rf".*ordered by me@desk {TIME}, {verdict} by lab2 (\S+ )?\d\d:\d\d:\d\d{messages}",
        order.sentence("lab2"),
    )


def test_few_orders_are_kept_and_the_newest_comes_first() -> None:
    history = SlotsHistory()
    for number in range(MAX_KEPT_ORDERS + 2):
        data = {"runner": "one", "action": "add", "devices": [f"gpu:{number}"]}
        history.take(Event(kind=REQUESTED, data=data, seq=number + 1))
    orders = history.of("one")
    assert len(orders) == MAX_KEPT_ORDERS
    assert orders[0].devices == (f"gpu:{MAX_KEPT_ORDERS + 1}",)
    assert history.of("another") == []
