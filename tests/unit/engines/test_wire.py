"""A slot's frames become events, or are refused by name."""

from __future__ import annotations

import pytest

from benchfleet.engines.base import Recorded, SlotId
from benchfleet.engines.frames import Frame
from benchfleet.engines.wire import to_event
from benchfleet.errors import ProtocolError

SLOT = SlotId("s")


def test_a_sample_frame_becomes_what_was_recorded() -> None:
    frame = Frame(
        type="sample", fields={"attempt": "f/1-1", "done": 2, "total": 5}, attached=(b"{}\n",)
    )
    assert to_event(SLOT, frame) == Recorded(
        slot=SLOT, attempt="f/1-1", lines=b"{}\n", done=2, total=5
    )


@pytest.mark.parametrize(
    "frame",
    [
        Frame(type="sample", fields={"attempt": "f/1-1"}),
        Frame(type="done", fields={}),
        Frame(type="dance", fields={"attempt": "f/1-1"}),
    ],
)
def test_a_frame_that_lacks_something_is_refused(frame: Frame) -> None:
    with pytest.raises(ProtocolError, match=frame.type):
        to_event(SLOT, frame)
