"""What the slot reports of a benchmark while it asks and records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.benchmarks.base import Record
from benchfleet.domain.limits import Limits
from benchfleet.slot.session import SlotSession
from benchfleet.testing.sample_cells import sample_cell


class Heard:
    """A channel that keeps what was sent."""

    def __init__(self) -> None:
        self.stopping: set[str] = set()
        self.frames: list[tuple[str, dict[str, Any]]] = []

    def send(self, type: str, attached: tuple[bytes, ...] = (), **fields: Any) -> None:
        del fields["attempt"]
        self.frames.append((type, fields))


def record(index: int, **given: Any) -> Record:
    return Record(index=index, id=f"s{index}", columns={}, predicted_answer="x", **given)


def session(heard: Heard, *, generation: float | None = None, recorded: Any = ()) -> SlotSession:
    return SlotSession(
        channel=heard,  # type: ignore[arg-type]
        attempt="f/1-1",
        adapter=None,
        cell=replace(sample_cell(), limits=Limits(generation=generation)),
        batch_size=1,
        recorded=recorded,
        scratch_folder=Path("nowhere"),
    )


def test_a_call_with_a_limit_is_reported_at_its_beginning_and_end() -> None:
    heard = Heard()
    with session(heard, generation=60).asking(4, sample=8):
        assert heard.frames == [("calling", {"count": 4, "sample": 8})]
    assert heard.frames[1:] == [("calling", {"count": 0})]


def test_a_call_without_a_limit_costs_no_frame() -> None:
    heard = Heard()
    with session(heard).asking(4):
        pass
    assert heard.frames == []


def test_an_error_in_a_call_is_its_own() -> None:
    with pytest.raises(ZeroDivisionError), session(Heard(), generation=60).asking(1):
        raise ZeroDivisionError


def test_samples_count_once_and_what_is_kept_or_withdrawn_does_not() -> None:
    heard = Heard()
    output = session(heard, recorded=[record(0), record(-1)])
    output.expect(9)
    output.record(record(1, prompt_tokens=70, completion_tokens=3))
    output.record(record(-2))
    output.record(record(0))
    output.record(record(1, withdrawn=True))
    assert [fields["done"] for _, fields in heard.frames] == [1, 2, 2, 2, 1]
    assert {fields["total"] for _, fields in heard.frames} == {9}
    tokens = [(f["prompt_tokens"], f["completion_tokens"]) for _, f in heard.frames[1:3]]
    assert tokens == [(70, 3), (0, 0)]


@pytest.mark.parametrize("resumed", [False, True])
def test_tokens_of_an_answer_count_once_where_its_sample_has_them_too(resumed: bool) -> None:
    """As a `python` benchmark records: first what the model answered, then the samples of it."""
    heard, answer = Heard(), record(-1, prompt_tokens=7, completion_tokens=3)
    output = session(heard, recorded=[answer] if resumed else [])
    output.expect(1)
    if not resumed:
        output.record(answer)
    output.record(record(0, prompt_tokens=7, completion_tokens=3))
    tokens = [
        (f["prompt_tokens"], f["completion_tokens"]) for type, f in heard.frames if type == "sample"
    ]
    assert tokens == ([] if resumed else [(7, 3)]) + [(0, 0)]
