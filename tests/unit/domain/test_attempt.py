"""What an outcome keeps for the next attempt, and how it describes all of them."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from benchfleet.domain.attempt import Advice, Claim, Lease, Outcome
from benchfleet.domain.cell import Fingerprint
from benchfleet.domain.failure import Failure
from benchfleet.domain.usage import Usage
from benchfleet.testing.sample_cells import sample_cell

OOM = Failure(stage="benchmark", kind="oom", message="no room")
LOST = Failure(stage="benchmark", kind="slot_lost", message="exit code 1")


@pytest.mark.parametrize(
    ("advice", "output"),
    [
        (Advice(), ""),
        (Advice(batch_size=4), "with batch size 4"),
        (Advice(alone=True), "alone"),
        (Advice(batch_size=1, alone=True, vram=26_400_000_000),
         "with batch size 1, alone, on at least 26.4 GB"),
    ],
)  # fmt: skip
def test_advice_is_printed_in_words(advice: Advice, output: str) -> None:
    assert str(advice) == output
    assert bool(advice) == bool(output)


def test_why_tells_the_first_reason_the_count_and_what_was_done_at_last() -> None:
    assert Outcome(state="success").why == ""
    assert Outcome(state="failed", failure=OOM).why == "benchmark: oom (no room)"
    last = Outcome(
        state="failed",
        failure=LOST,
        first=OOM,
        failures={"oom": 2, "slot_lost": 1},
        advice=Advice(batch_size=2),
    )
    assert last.why == (
        "benchmark: oom (no room); failed 3 times (2 oom, 1 slot_lost); at last with batch size 2"
    )


def test_an_outcome_survives_json_and_leaves_out_what_most_do_not_have() -> None:
    plain = Outcome(state="success", digest="d", metrics={"overall_score": 1.0})
    assert not {"advice", "first", "failures"} & plain.to_dict().keys()
    whole = Outcome(
        state="partial", failure=LOST, first=OOM, failures={"oom": 1}, advice=Advice(alone=True)
    )
    for outcome in (plain, whole):
        assert Outcome.from_dict(json.loads(json.dumps(outcome.to_dict()))) == outcome


def test_an_outcome_is_written_with_all_that_it_has() -> None:
    whole = Outcome(
        state="partial", first=OOM, failures={"oom": 1}, advice=Advice(alone=True),
        reported={"a": 1}, device_type="cpu", resumed=3, usage=Usage(seconds=1.0),
        taken_from="file:///cache",
    )  # fmt: skip
    assert whole.to_dict().keys() == {field.name for field in fields(Outcome)}


def claim(batch_size: int, advice: Advice) -> Claim:
    cell = sample_cell(batch_size=batch_size)
    return Claim(
        lease=Lease(fingerprint=Fingerprint("f"), attempt=2, token=2, expires_in=60),
        cell=cell,
        path="p",
        tries=0,
        retry_of=Outcome(state="failed", failure=OOM, retry_in=0, advice=advice),
    )


def test_the_effective_batch_size_is_never_larger_than_the_declared_one() -> None:
    assert claim(8, Advice()).batch_size == 8
    assert claim(8, Advice(batch_size=4)).batch_size == 4
    assert claim(2, Advice(batch_size=4)).batch_size == 2
