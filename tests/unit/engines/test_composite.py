"""One engine for several finds the engine of each slot, or says that there is none."""

from __future__ import annotations

from typing import Any

from benchfleet.domain.resource import Device
from benchfleet.engines.base import EngineEvent, SlotId, SlotLost, SlotSpec
from benchfleet.engines.composite import CompositeEngine


class Recording:
    """An engine that keeps its calls, with hosts that may leave."""

    def __init__(self, *hosts: str) -> None:
        self.names, self.calls = list(hosts), list[tuple[str, str]]()

    def hosts(self) -> list[str]:
        return self.names

    def open(self, spec: SlotSpec) -> None:
        self.calls.append(("open", spec.slot))

    def close(self, slot: SlotId) -> None:
        self.calls.append(("close", slot))


def spec(slot: str, host: str) -> SlotSpec:
    device = Device(kind="cpu", index=0, host=host)
    return SlotSpec(slot=SlotId(slot), devices=(device,), threads=1, log="")


def test_a_slot_goes_to_the_engine_of_its_host() -> None:
    local, lab, cluster = Recording(), Recording("lab1"), Recording("node1")
    engines: Any = (lab, cluster)
    composite = CompositeEngine(lambda event: None, local, engines)  # type: ignore[arg-type]
    for slot, host in (("a", ""), ("b", "lab1"), ("c", "node1")):
        composite.open(spec(slot, host))
        composite.close(SlotId(slot))
    assert [one.calls for one in (local, lab, cluster)] == [
        [("open", "a"), ("close", "a")],
        [("open", "b"), ("close", "b")],
        [("open", "c"), ("close", "c")],
    ]


def test_a_slot_on_a_host_that_left_is_lost_and_later_calls_do_nothing() -> None:
    posted: list[EngineEvent] = []
    lab: Any = Recording("lab1")
    composite = CompositeEngine(posted.append, lab, [lab])
    lab.names.clear()
    composite.open(spec("a", "lab1"))
    (event,) = posted
    assert isinstance(event, SlotLost)
    assert event.host_lost
    for call in (composite.close, composite.kill):
        call(SlotId("a"))
    composite.stop(SlotId("a"), "attempt")
    assert not lab.calls
