"""Attempts that take too long as a whole, in one call of the model, or without a sign."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from benchfleet.domain.cell import Limits
from benchfleet.engines.base import (
    AttemptEvent,
    Calling,
    FileSent,
    Progressed,
    Recorded,
    SlotId,
    Started,
)
from benchfleet.runner.trying.overdue import Watch

OF: dict[str, Any] = {"slot": SlotId("s"), "attempt": "f/1-1"}


def sample(done: int, total: int = 9) -> Recorded:
    return Recorded(**OF, lines=b"{}\n", done=done, total=total, tokens=(10, 1))


def watched(limits: Limits, *came: tuple[float, AttemptEvent]) -> Watch:
    watch = Watch(limits, began=0.0)
    for now, event in [(10.0, Started(**OF, stage="benchmark")), *came]:
        watch.saw(event, now)
    return watch


def said(watch: Watch, now: float) -> tuple[str, str] | None:
    found = watch.overdue(now)
    return (found.kind, found.message) if found else None


def test_without_limits_nothing_is_overdue_before_it_has_shown_what_is_usual() -> None:
    assert said(watched(Limits(), (11.0, sample(1))), 1e6) is None


def test_the_limit_of_the_cell_counts_from_its_beginning() -> None:
    watch = Watch(Limits(cell=60), began=5.0)
    assert said(watch, 65) is None
    assert said(watch, 66) == ("timeout", "it ran longer than its limit of 60 s")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (Calling(**OF, count=1, sample=4), "with one prompt, the first that of sample 4, takes"),
        (Calling(**OF, count=8), "with 8 prompts takes longer than its limit of 600 s (limits."),
    ],
)
def test_a_call_of_the_model_has_a_limit_of_its_own(call: Calling, told: str) -> None:
    watch = watched(Limits(generation=600), (20.0, sample(3)), (30.0, call))
    assert said(watch, 630) is None
    kind, message = said(watch, 631) or ("", "")
    assert kind == "timeout"
    assert told in message
    assert message.endswith("3 of 9 samples are recorded")


def test_a_call_that_ended_or_was_followed_by_another_is_not_overdue() -> None:
    call, end = Calling(**OF, count=1), Calling(**OF, count=0)
    watch = watched(Limits(generation=600), (30.0, call), (500.0, end))
    assert said(watch, 5000) is None
    watch.saw(call, 5000)
    watch.saw(call, 5500)
    assert said(watch, 6100) is None
    assert said(watch, 6101)


def test_a_cell_without_a_sign_is_stuck() -> None:
    watch = watched(Limits(stuck=60), (20.0, sample(1)))
    assert said(watch, 80) is None
    message = "nothing came of it for 61 s; limits.stuck is 60 s; 1 of 9 samples are recorded"
    assert said(watch, 81) == ("stuck", message)


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
    watch = watched(Limits(stuck=60), (20.0, sample(1)), (70.0, sign))
    assert said(watch, 129) is None
    assert said(watch, 131)


def test_a_model_that_takes_long_to_load_is_not_stuck() -> None:
    watch = Watch(Limits(stuck=60), began=0.0)
    watch.saw(Started(**OF, stage="load"), 1.0)
    assert said(watch, 5000) is None
    watch.saw(Started(**OF, stage="benchmark"), 5000.0)
    assert said(watch, 5059) is None


def test_silence_after_the_last_sample_is_scoring_unless_a_limit_is_set() -> None:
    came = [(10.0 + n, sample(n, total=9)) for n in range(1, 10)]
    assert said(watched(Limits(), *came), 1e6) is None
    assert said(watched(Limits(), *came[:-1]), 1e6)
    assert said(watched(Limits(stuck=600), *came), 1e6)


def test_what_the_runner_slept_is_excused() -> None:
    watch = watched(Limits(stuck=60, generation=60), (20.0, Calling(**OF, count=1)))
    watch.excuse(5000)
    assert said(watch, 5070) is None
    assert said(watch, 5081)


def test_what_the_runner_slept_is_no_part_of_a_cells_limit() -> None:
    watch = watched(Limits(cell=100))
    watch.excuse(5000)
    assert said(watch, 5090) is None
    assert said(watch, 5111)


@pytest.mark.parametrize("limits", [Limits(), Limits(stuck=40), Limits(cell=300, generation=50)])
def test_until_the_moment_that_it_names_it_is_never_overdue(limits: Limits) -> None:
    chance = Random(7)
    looked_at = skipped = 0
    for _ in range(100):
        watch, now, done = Watch(limits, began=0.0), 0.0, 0
        watch.saw(Started(**OF, stage="benchmark"), now)
        while now < 2000:
            now += chance.choice([1.0, 1.0, 5.0, 60.0, 700.0])
            sure, found = now < watch.sure_until, said(watch, now)
            looked_at, skipped = looked_at + 1, skipped + sure
            assert not (sure and found)
            if chance.random() < 0.3:
                done += 1
                watch.saw(sample(min(done, 9)), now)
            elif chance.random() < 0.2:
                watch.saw(Calling(**OF, count=chance.choice([0, 1])), now)
    assert 0 < skipped < looked_at
