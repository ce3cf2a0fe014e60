"""Orders to slots are read as people write them, and survive the ledger."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchfleet.domain.event import Event
from benchfleet.domain.slots import (
    ANSWERED,
    Answer,
    DeviceName,
    SlotsCommand,
    SlotState,
    answer_of,
    command_from,
    device_name,
    parse_command,
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
    with pytest.raises(ValueError, match="write gpu:3"):
        device_name(text)


def test_a_line_of_a_signal_file_is_an_order() -> None:
    two = (device_name("gpu:3"), device_name("lab2/gpu:1"))
    assert parse_command("add gpu:3, lab2/gpu:1  # thanks") == SlotsCommand(
        action="add", devices=two
    )
    assert parse_command("drain gpu:3 now") == SlotsCommand(
        action="drain", devices=two[:1], now=True
    )
    assert parse_command("remove gpu:3 --now") == SlotsCommand(
        action="remove", devices=two[:1], now=True
    )
    assert parse_command("  # nothing") is None


@pytest.mark.parametrize("line", ["add", "add now", "drain now", "paint gpu:3", "list", "gpu:3"])
def test_a_line_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"invalid action|names no device|invalid device"):
        parse_command(line)


def test_orders_and_answers_survive_the_ledger() -> None:
    order = SlotsCommand(action="drain", devices=(device_name("gpu:3"),), now=True)
    event = order.event("us")
    event = replace(event, seq=7, data=json.loads(json.dumps(dict(event.data))))
    assert command_from(event) == replace(order, request=7)
    slot = SlotState(devices="gpu:3", state="benchmark", slot="us-1", cell="m/d/b", seconds=2.5)
    answer = Answer(runner="us", request=7, done=("done",), refused=("no",), slots=(slot,))
    data = json.loads(json.dumps(dict(answer.event().data)))
    assert answer_of(Event(kind=ANSWERED, data=data, at=9.0)) == replace(answer, at=9.0)
