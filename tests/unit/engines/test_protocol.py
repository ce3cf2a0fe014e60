"""A slot's frames become events, or are refused by name."""

from __future__ import annotations

import pytest

from benchfleet.domain.telemetry import Reading
from benchfleet.engines.base import Calling, Measured, Recorded, SlotId, Warned
from benchfleet.engines.frames import Frame
from benchfleet.engines.protocol import to_event
from benchfleet.errors import ProtocolError

SLOT = SlotId("s")
ATTEMPT = {"attempt": "f/1-1"}
COUNTS = {"done": 2, "total": 5, "prompt_tokens": 70, "completion_tokens": 3}


def test_a_sample_frame_becomes_what_was_recorded() -> None:
    frame = Frame(type="sample", fields={**ATTEMPT, **COUNTS}, attached=(b"{}\n",))
    assert to_event(SLOT, frame) == Recorded(
        slot=SLOT, attempt="f/1-1", lines=b"{}\n", done=2, total=5, tokens=(70, 3)
    )


def test_a_reading_and_a_warning_become_events() -> None:
    output = Reading(at=1.0, cpu=0.5, ram=7)
    frame = Frame(type="reading", fields={**ATTEMPT, "reading": output.to_dict()})
    assert to_event(SLOT, frame) == Measured(slot=SLOT, attempt="f/1-1", reading=output)
    frame = Frame(type="warning", fields={**ATTEMPT, "message": "it grows"})
    assert to_event(SLOT, frame) == Warned(slot=SLOT, attempt="f/1-1", message="it grows")


@pytest.mark.parametrize("sample", [None, 7])
def test_calls_of_the_model_begin_and_end(sample: int | None) -> None:
    began = Frame(type="calling", fields={**ATTEMPT, "count": 8, "sample": sample})
    ended = Frame(type="calling", fields={**ATTEMPT, "count": 0})
    assert to_event(SLOT, began) == Calling(slot=SLOT, attempt="f/1-1", count=8, sample=sample)
    assert to_event(SLOT, ended) == Calling(slot=SLOT, attempt="f/1-1", count=0)


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
        ("dance", ATTEMPT),
        ("sample", ATTEMPT),
        ("done", {}),
        ("warning", ATTEMPT),
        ("reading", {**ATTEMPT, "reading": {"at": "noon", "gpus": []}}),
        ("reading", {**ATTEMPT, "reading": {"at": 0.0, "gpus": [7]}}),
        ("reading", {**ATTEMPT, "reading": [{"at": 0.0}]}),
        ("progress", {**ATTEMPT, "done": "1", "total": 2}),
        ("progress", {**ATTEMPT, "done": True, "total": 2}),
        ("progress", {**ATTEMPT, "done": -1, "total": 2}),
        ("sample", {**ATTEMPT, **COUNTS, "total": 1.5}),
        ("sample", {**ATTEMPT, **COUNTS, "prompt_tokens": -1}),
        ("calling", {**ATTEMPT, "count": "one"}),
        ("calling", {**ATTEMPT, "count": 1, "sample": -2}),
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
def test_a_frame_that_lacks_a_field_or_has_a_wrong_one_is_refused_by_name(
    type: str, fields: dict[str, object]
) -> None:
    with pytest.raises(ProtocolError, match=f"frame '{type}'"):
        to_event(SLOT, Frame(type=type, fields=fields))
