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


ATTEMPT = {"attempt": "f/1-1"}
SCORE = {"overall": 1.0, "per_sample": [], "tasks": {}, "summary": {}}
DONE = {**ATTEMPT, "score": SCORE, "seconds": {"load": 1}, "provenance": {}}
FAILURE = {"stage": "load", "kind": "oom", "message": "m", "retryable": True}
FAILED = {**ATTEMPT, "failure": FAILURE, "seconds": {}, "fit": True}


def test_frames_of_the_right_types_become_events() -> None:
    for type, fields in (("done", DONE), ("failed", FAILED)):
        assert to_event(SLOT, Frame(type=type, fields=fields)).slot == SLOT


@pytest.mark.parametrize(
    ("type", "fields"),
    [
        ("progress", {**ATTEMPT, "done": "1", "total": 2}),
        ("progress", {**ATTEMPT, "done": True, "total": 2}),
        ("progress", {**ATTEMPT, "done": -1, "total": 2}),
        ("sample", {**ATTEMPT, "done": 1, "total": 1.5}),
        ("started", {**ATTEMPT, "stage": "nap"}),
        ("started", {"attempt": 7, "stage": "load"}),
        ("file", {**ATTEMPT, "name": ["a"]}),
        ("stopped", {**ATTEMPT, "reason": None, "fit": True}),
        ("stopped", {**ATTEMPT, "reason": "r", "fit": 1}),
        ("done", {**DONE, "score": 1.0}),
        ("done", {**DONE, "score": {"overall": 1.0}}),
        ("done", {**DONE, "seconds": {"load": "long"}}),
        ("done", {**DONE, "provenance": "mine"}),
        ("failed", {**FAILED, "failure": {**FAILURE, "kind": "tired"}}),
        ("failed", {**FAILED, "failure": {**FAILURE, "message": 3}}),
        ("failed", {**FAILED, "failure": {**FAILURE, "mood": "low"}}),
        ("failed", {**FAILED, "failure": "it broke"}),
    ],
)
def test_a_field_of_the_wrong_type_is_refused_by_the_frames_name(
    type: str, fields: dict[str, object]
) -> None:
    with pytest.raises(ProtocolError, match=f"frame '{type}'"):
        to_event(SLOT, Frame(type=type, fields=fields))
