"""What each policy wishes for a slot, and how long a whole run takes by it."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence

import pytest

from benchfleet import registry
from benchfleet.errors import UnknownName
from benchfleet.policies.base import Policy, Preference, Work
from benchfleet.policies.warm_first import WarmFirst
from benchfleet.testing.sample_cells import sample_cell

CELL = sample_cell()
NAMES = ["fifo", "longest-first", "shortest-first", "warm-first"]


def work(load_key: str, seconds: float, cells: int = 10, **named: object) -> Work:
    return Work(load_key=load_key, cells=cells, seconds=seconds, has_times=True, **named)  # type: ignore[arg-type]


def order(preference: Preference | None) -> list[str]:
    assert preference is not None
    return sorted(preference.models, key=lambda key: preference.models[key])


def test_policies_are_found_by_name() -> None:
    assert registry.names("policies") == NAMES
    with pytest.raises(UnknownName, match="no placement policy 'longest'; did you mean"):
        registry.load("policies", "longest")


def test_a_warm_slot_keeps_its_model() -> None:
    preference = WarmFirst().preference("a", [work("b", 900), work("a", 1)])
    assert order(preference) == ["a", "b"]


def test_a_cold_slot_takes_the_model_that_nobody_serves_with_the_most_work() -> None:
    works = [work("a", 900, serving=1), work("b", 5), work("c", 50)]
    assert order(WarmFirst().preference("", works)) == ["c", "b", "a"]


def test_among_models_that_are_served_the_most_work_for_each_slot_counts() -> None:
    works = [work("a", 900, serving=4), work("b", 500, serving=1), work("c", 950, serving=4)]
    assert order(WarmFirst().preference("gone", works)) == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("cells", "serving", "load", "wanted"),
    [
        (10, 1, 30.0, True),  # the last would begin after 95 s
        (2, 1, 30.0, False),  # after 15 s
        (10, 9, 30.0, False),  # after 11 s
        (1, 1, 0.0, True),  # it costs nothing, or nobody knows
        (1, 0, 900.0, True),  # nobody else has it
    ],
)
def test_nothing_is_loaded_for_a_tail_that_others_end_sooner(
    cells: int, serving: int, load: float, wanted: bool
) -> None:
    tail = work("a", 10.0 * cells, cells, serving=serving, load=load)
    assert (WarmFirst().preference("", [tail]) is not None) == wanted


@pytest.mark.parametrize("wanted", [False, True])
def test_a_tail_behind_cells_that_take_longer_than_a_load_is_worth_one(wanted: bool) -> None:
    tail = work("a", 10.0, 1, serving=1, load=30.0, occupied=wanted)
    assert (WarmFirst().preference("", [tail]) is not None) == wanted


def test_by_time_a_load_counts_as_much_as_a_cell() -> None:
    for name in ("shortest-first", "longest-first"):
        preference = registry.load("policies", name)().preference(
            "a", [work("a", 1), work("b", 1, load=9.0)]
        )
        assert preference is not None
        assert preference.models["a"] == 0.0
        assert preference.models["b"] == pytest.approx(9.0, abs=0.01)


def test_first_in_first_out_knows_no_models() -> None:
    assert (
        registry.load("policies", "fifo")().preference("a", [work("a", 1), work("b", 1)])
        == Preference()
    )


def makespan(
    policy: Policy, models: Sequence[str], seconds: Sequence[float], slots: int, load: float
) -> tuple[float, list[tuple[int, str]]]:
    """The end of a run by the contract of `base.py`, and each load: slot and model."""
    waiting = set(range(len(models)))
    ranks = [policy.rank(CELL, one) for one in seconds]
    loaded = [""] * slots
    loads: list[tuple[int, str]] = []
    free = [(0.0, slot) for slot in range(slots)]
    end = 0.0
    while waiting and free:
        now, slot = heapq.heappop(free)
        works = []
        for model in dict.fromkeys(models):
            mine = [n for n in waiting if models[n] == model]
            serving = sum(key == model for other, key in enumerate(loaded) if other != slot)
            if mine:
                total = sum(seconds[n] for n in mine)
                works.append(work(model, total, len(mine), load=load, serving=serving))
        preference = policy.preference(loaded[slot], works)
        if preference is None:
            continue
        wanted = [
            n for n in waiting if models[n] in preference.models or preference.others is not None
        ]
        best = min(
            wanted,
            key=lambda n: (
                ranks[n] + preference.models.get(models[n], preference.others or 0.0),
                n,
            ),
        )
        waiting.remove(best)
        took = seconds[best]
        if loaded[slot] != models[best]:
            loaded[slot] = models[best]
            loads.append((slot, models[best]))
            took += load
        end = max(end, now + took)
        heapq.heappush(free, (now + took, slot))
    assert not waiting
    return end, loads


@pytest.mark.parametrize("slots", [8, 16, 64])
@pytest.mark.parametrize("seed", range(5))
def test_longest_first_ends_uneven_cells_near_the_best_bound(slots: int, seed: int) -> None:
    draw = random.Random(seed)
    seconds = [draw.lognormvariate(4, 1.2) for _ in range(12 * slots)]
    policy = registry.load("policies", "longest-first")()
    end, _ = makespan(policy, ["m"] * len(seconds), seconds, slots, 0.0)
    assert end <= 1.05 * max(sum(seconds) / slots, max(seconds))


@pytest.mark.parametrize("slots", [2, 8, 32])
@pytest.mark.parametrize("seed", range(5))
def test_warm_first_loads_each_model_at_most_once_in_a_slot(slots: int, seed: int) -> None:
    draw = random.Random(seed)
    models = [draw.choice("abcdef") for _ in range(300)]
    seconds = [draw.lognormvariate(3, 1) for _ in models]
    end, loads = makespan(WarmFirst(), models, seconds, slots, 60.0)
    assert len(loads) == len(set(loads))
    by_time, _ = makespan(registry.load("policies", "longest-first")(), models, seconds, slots, 0.0)
    assert end <= by_time + 60.0 * 6 + max(seconds)


def test_a_model_is_loaded_by_no_more_slots_than_gain_by_it() -> None:
    models = ["a"] * 40 + ["b"] * 2
    _, loads = makespan(WarmFirst(), models, [10.0] * 42, 4, 100.0)
    assert sum(model == "b" for _, model in loads) == 1
