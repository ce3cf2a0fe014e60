"""How many slots share a memory: fewer at once, more after a while, and never to and fro."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchfleet.runner.resources.autoscale import (
    ROOM,
    SETTLE_S,
    SHORT,
    MemoryUse,
    Target,
    target_slots,
)

GB = 10**9
AMPLE = MemoryUse(slots=2, slots_open=2, most=8, total=80 * GB, free=60 * GB, slot=10 * GB)


def target(use: MemoryUse, **changes: Any) -> Target:
    """Half a minute after the number of slots changed."""
    return target_slots(replace(use, **changes), now=SETTLE_S)


def test_slots_are_opened_as_long_as_one_more_leaves_room() -> None:
    assert target(AMPLE).slots == 4  # as many as there are, at most
    assert target(AMPLE, free=35 * GB).slots == 4
    assert target(AMPLE, free=25 * GB).slots == 3
    assert target(AMPLE, free=21 * GB).slots == 2
    assert target(AMPLE, most=3).slots == 3
    assert target(AMPLE).why == "60.0 of 80.0 GB are free"


@pytest.mark.parametrize(
    "reason",
    [
        {"changed": 1.0},  # what the last one takes does not show yet
        {"slots_open": 1},  # nobody waits for a seat
        {"busy": [0.9, 1.0]},
        {"free": None},  # nothing is known
        {"free": 10 * GB},
        {"most": 2},
        {"ran_out_at": 3},
    ],
)
def test_no_slot_is_opened_without_a_good_reason(reason: dict[str, Any]) -> None:
    assert target(AMPLE, **reason).slots == 2


def test_one_at_a_time_is_tried_where_nobody_knows_what_a_slot_takes() -> None:
    assert target(AMPLE, slot=0).slots == 3


def test_a_slot_is_closed_where_memory_gets_short() -> None:
    short = replace(AMPLE, slots=4, slots_open=4, free=3 * GB)
    assert target(short).slots == 3
    assert target(short).why == "only 3.0 of 80.0 GB are free"
    assert target(short, slots_open=1).slots == 4  # it is others who take it


def test_memory_that_ran_out_is_remembered() -> None:
    after = replace(AMPLE, slots=4, slots_open=4, changed=SETTLE_S, ran_out_at=4)
    assert target(after).slots == 3
    assert target(after).why == "memory ran out with 4"
    assert target(after, slots=3, slots_open=3, changed=-9 * SETTLE_S).slots == 3
    assert target(after, ran_out_at=1).slots == 1


def test_slots_that_do_not_grow_are_as_many_as_asked_for() -> None:
    fixed = replace(AMPLE, grows=False, free=None)
    assert target(fixed).slots == 8
    assert target(fixed, ran_out_at=5).slots == 4


numbers = st.integers(min_value=1, max_value=64)


@given(
    slots=numbers, most=numbers, slot=st.integers(1, 80), used=st.integers(0, 40),
    ran_out_at=st.integers(0, 64),
)  # fmt: skip
def test_with_slots_that_take_the_same_the_number_comes_to_rest(
    slots: int, most: int, slot: int, used: int, ran_out_at: int
) -> None:
    """Whatever slots take, what was opened for want of nothing is not closed again."""
    seen: list[int] = []
    now = min(slots, most)
    for _ in range(200):
        free = max(0, 80 - used - now * slot)
        use = MemoryUse(
            slots=now, slots_open=now, most=most, total=80 * GB, free=free * GB, slot=slot * GB,
            ran_out_at=ran_out_at,
        )  # fmt: skip
        wanted = target(use).slots
        assert 1 <= wanted <= max(now, most)
        seen.append(wanted)
        now = wanted
    assert seen[-1] == seen[-2]
    steps = [later - earlier for earlier, later in pairwise(seen)]
    assert min(steps) >= 0 or max(steps) <= 0
    assert not ran_out_at or now < max(2, ran_out_at)
    assert SHORT < ROOM
