"""Attempts that take too long as a whole, in one call of the model, or without a sign."""

from __future__ import annotations

from typing import Any

import pytest

from benchfleet.domain.limits import Limits
from benchfleet.engines.base import (
    AttemptEvent,
    Calling,
    FileSent,
    Progressed,
    Recorded,
    SlotId,
    Started,
)
from benchfleet.runner.attempt.timeouts import AttemptTimeouts

OF: dict[str, Any] = {"slot": SlotId("s"), "attempt": "f/1-1"}


def sample(done: int, total: int = 9) -> Recorded:
    return Recorded(**OF, lines=b"{}\n", done=done, total=total, tokens=(10, 1))


def watched(limits: Limits, *came: tuple[float, AttemptEvent]) -> AttemptTimeouts:
    timeouts = AttemptTimeouts(limits, began=0.0)
    for now, event in [(10.0, Started(**OF, stage="benchmark")), *came]:
        timeouts.record(event, now)
    return timeouts


def failure_at(timeouts: AttemptTimeouts, now: float) -> tuple[str, str] | None:
    found = timeouts.expired(now)
    return (found.kind, found.message) if found else None


def test_without_limits_nothing_is_overdue_before_it_has_shown_what_is_usual() -> None:
    assert failure_at(watched(Limits(), (11.0, sample(1))), 1e6) is None


def test_the_limit_of_the_cell_counts_from_its_beginning() -> None:
    timeouts = AttemptTimeouts(Limits(cell=60), began=5.0)
    assert failure_at(timeouts, 65) is None
    message = "it ran longer than its limit of 60 s (limits.cell)"
    assert failure_at(timeouts, 66) == ("timeout", message)


@pytest.mark.parametrize(
    ("call", "output"),
    [
        (Calling(**OF, count=1, sample=4), "with one prompt, the first that of sample 4, takes"),
        (Calling(**OF, count=8), "with 8 prompts takes longer than its limit of 600 s (limits."),
    ],
)
def test_a_call_of_the_model_has_a_limit_of_its_own(call: Calling, output: str) -> None:
    timeouts = watched(Limits(generation=600), (20.0, sample(3)), (30.0, call))
    assert failure_at(timeouts, 630) is None
    kind, message = failure_at(timeouts, 631) or ("", "")
    assert kind == "timeout"
    assert output in message
    assert message.endswith("3 of 9 samples are recorded")


def test_a_call_that_ended_or_was_followed_by_another_is_not_overdue() -> None:
    call, end = Calling(**OF, count=1), Calling(**OF, count=0)
    timeouts = watched(Limits(generation=600), (30.0, call), (500.0, end))
    assert failure_at(timeouts, 5000) is None
    timeouts.record(call, 5000)
    timeouts.record(call, 5500)
    assert failure_at(timeouts, 6100) is None
    assert failure_at(timeouts, 6101)


def test_a_cell_without_a_sign_is_stuck() -> None:
    timeouts = watched(Limits(stuck=60), (20.0, sample(1)))
    assert failure_at(timeouts, 80) is None
    message = "nothing came of it for 61 s; limits.stuck is 60 s; 1 of 9 samples are recorded"
    assert failure_at(timeouts, 81) == ("stuck", message)


@pytest.mark.parametrize(
    "sign",
    [
        Progressed(**OF, done=1, total=9),
        FileSent(**OF, name="a", data=b""),
        Calling(**OF, count=1),
        sample(1),  # kept for the next attempt alone: no sample more
    ],
)
def test_signs_that_are_no_samples_count(sign: AttemptEvent) -> None:
    timeouts = watched(Limits(stuck=60), (20.0, sample(1)), (70.0, sign))
    assert failure_at(timeouts, 129) is None
    assert failure_at(timeouts, 131)


def test_a_model_that_takes_long_to_load_is_not_stuck() -> None:
    timeouts = AttemptTimeouts(Limits(stuck=60), began=0.0)
    timeouts.record(Started(**OF, stage="load"), 1.0)
    assert failure_at(timeouts, 5000) is None
    timeouts.record(Started(**OF, stage="benchmark"), 5000.0)
    assert failure_at(timeouts, 5059) is None


def test_silence_after_the_last_sample_is_scoring_unless_a_limit_is_set() -> None:
    came = [(10.0 + n, sample(n, total=9)) for n in range(1, 10)]
    assert failure_at(watched(Limits(), *came), 1e6) is None
    assert failure_at(watched(Limits(), *came[:-1]), 1e6)
    assert failure_at(watched(Limits(stuck=600), *came), 1e6)


def test_what_the_runner_slept_is_excused() -> None:
    timeouts = watched(Limits(stuck=60, generation=60), (20.0, Calling(**OF, count=1)))
    timeouts.excuse(5000)
    assert failure_at(timeouts, 5070) is None
    assert failure_at(timeouts, 5081)


def test_what_the_runner_slept_is_no_part_of_a_cells_limit() -> None:
    timeouts = watched(Limits(cell=100))
    timeouts.excuse(5000)
    assert failure_at(timeouts, 5090) is None
    assert failure_at(timeouts, 5111)
