"""How many slots share a memory: fewer at once, more after a while, and never to and fro."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchfleet.runner.slots.adapt import ROOM, SETTLE, SHORT, Seen, seats_wanted

GB = 10**9
AMPLE = Seen(seats=2, taken=2, most=8, quiet=SETTLE, total=80 * GB, free=60 * GB, slot=10 * GB)


def test_slots_are_opened_as_long_as_one_more_leaves_room() -> None:
    assert seats_wanted(AMPLE).seats == 4  # as many as there are, at most
    assert seats_wanted(replace(AMPLE, free=35 * GB)).seats == 4
    assert seats_wanted(replace(AMPLE, free=25 * GB)).seats == 3
    assert seats_wanted(replace(AMPLE, free=21 * GB)).seats == 2
    assert seats_wanted(replace(AMPLE, most=3)).seats == 3
    assert seats_wanted(AMPLE).why == "60.0 of 80.0 GB are free"


@pytest.mark.parametrize(
    "reason",
    [
        {"quiet": SETTLE - 1},  # what the last one takes does not show yet
        {"taken": 1},  # nobody waits for a seat
        {"busy": 0.95},
        {"total": 0, "free": 0},  # nothing is known
        {"free": 10 * GB},
        {"most": 2},
        {"ran_out_at": 3},
    ],
)
def test_no_slot_is_opened_without_a_good_reason(reason: dict[str, float]) -> None:
    assert seats_wanted(replace(AMPLE, **reason)).seats == 2  # type: ignore[arg-type]


def test_one_at_a_time_is_tried_where_nobody_knows_what_a_slot_takes() -> None:
    assert seats_wanted(replace(AMPLE, slot=0)).seats == 3


def test_a_slot_is_closed_where_memory_gets_short() -> None:
    short = replace(AMPLE, seats=4, taken=4, free=3 * GB)
    assert seats_wanted(short).seats == 3
    assert seats_wanted(short).why == "only 3.0 of 80.0 GB are free"
    assert seats_wanted(replace(short, taken=1)).seats == 4  # it is others who take it


def test_memory_that_ran_out_is_remembered() -> None:
    after = replace(AMPLE, seats=4, taken=4, quiet=0, ran_out_at=4)
    assert seats_wanted(after).seats == 3
    assert seats_wanted(after).why == "memory ran out with 4"
    assert seats_wanted(replace(after, seats=3, taken=3, quiet=10 * SETTLE)).seats == 3
    assert seats_wanted(replace(after, ran_out_at=1)).seats == 1


def test_slots_that_do_not_grow_are_as_many_as_asked_for() -> None:
    fixed = replace(AMPLE, grows=False, total=0, free=0)
    assert seats_wanted(fixed).seats == 8
    assert seats_wanted(replace(fixed, ran_out_at=5)).seats == 4


numbers = st.integers(min_value=1, max_value=64)


@given(
    seats=numbers, most=numbers, slot=st.integers(1, 80), used=st.integers(0, 40),
    ran_out_at=st.integers(0, 64),
)  # fmt: skip
def test_with_slots_that_take_the_same_the_number_comes_to_rest(
    seats: int, most: int, slot: int, used: int, ran_out_at: int
) -> None:
    """Whatever slots take, what was opened for want of nothing is not closed again."""
    seen: list[int] = []
    now = min(seats, most)
    for _ in range(200):
        free = max(0, 80 - used - now * slot)
        wanted = seats_wanted(
            Seen(
                seats=now, taken=now, most=most, quiet=SETTLE, total=80 * GB, free=free * GB,
                slot=slot * GB, ran_out_at=ran_out_at,
            )
        ).seats  # fmt: skip
        assert 1 <= wanted <= max(now, most)
        seen.append(wanted)
        now = wanted
    assert seen[-1] == seen[-2]
    steps = [later - earlier for earlier, later in pairwise(seen)]
    assert min(steps) >= 0 or max(steps) <= 0
    assert not ran_out_at or now < max(2, ran_out_at)
    assert SHORT < ROOM
