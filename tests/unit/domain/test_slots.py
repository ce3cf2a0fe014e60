"""Orders to slots are read as people write them, and survive the ledger."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchfleet.domain.slots import (
    Answer,
    DeviceName,
    SlotsOrder,
    SlotState,
    answer_of,
    device_name,
    order_in,
    order_of,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("gpu:3", DeviceName("", "gpu", 3)),
        ("cpu:0", DeviceName("", "cpu", 0)),
        ("lab2/gpu:1", DeviceName("lab2", "gpu", 1)),
    ],
)
def test_a_device_is_read_and_written_alike(text: str, name: DeviceName) -> None:
    assert device_name(text) == name
    assert str(name) == text


@pytest.mark.parametrize(
    "text", ["gpu", "gpu:", "gpu:-1", "gpu:1:2", "/gpu:1", "GPU:1", "gpu:12345"]
)
def test_what_is_no_device_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no device; write gpu:3"):
        device_name(text)


def test_a_line_of_a_signal_file_is_an_order() -> None:
    two = (device_name("gpu:3"), device_name("lab2/gpu:1"))
    assert order_in("add gpu:3, lab2/gpu:1  # thanks") == SlotsOrder(action="add", devices=two)
    assert order_in("drain gpu:3 now") == SlotsOrder(action="drain", devices=two[:1], now=True)
    assert order_in("remove gpu:3 --now") == SlotsOrder(action="remove", devices=two[:1], now=True)
    assert order_in("  # nothing") is None


@pytest.mark.parametrize("line", ["add", "add now", "drain now", "paint gpu:3", "list", "gpu:3"])
def test_a_line_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"is none of|what\?|is no device"):
        order_in(line)


def test_orders_and_answers_survive_the_ledger() -> None:
    order = SlotsOrder(action="drain", devices=(device_name("gpu:3"),), now=True)
    event = order.event("us")
    event = replace(event, seq=7, data=json.loads(json.dumps(dict(event.data))))
    assert order_of(event) == replace(order, asked=7)
    slot = SlotState(devices="gpu:3", state="benchmark", slot="us-1", cell="m/d/b", seconds=2.5)
    answer = Answer(runner="us", asked=7, said=("done",), refused=("no",), slots=(slot,))
    assert answer_of(json.loads(json.dumps(dict(answer.event().data)))) == answer
