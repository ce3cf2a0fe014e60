"""The schedule of an open loop."""

from __future__ import annotations

import math
from itertools import islice, pairwise

import pytest

from benchfleet.serving.arrivals import arrival_times, part_of


def gaps(rate: float, count: int, seed: int = 1) -> list[float]:
    times = list(islice(arrival_times(rate, "poisson", seed), count))
    return [(after - before) / 1e9 for before, after in pairwise([0, *times])]


def test_a_constant_rate_is_constant() -> None:
    times = list(islice(arrival_times(200.0, "constant", 1), 800))
    assert {after - before for before, after in pairwise(times)} == {5_000_000}


@pytest.mark.parametrize("seed", range(3))
def test_poisson_gaps_are_exponential(seed: int) -> None:
    values = sorted(gaps(4.0, 4000, seed))
    # Kolmogorov and Smirnov: the largest distance to the distribution, at the 0.1 % level.
    distance = max(
        max(abs((n + 1) / 4000 - (1 - math.exp(-4 * x))), abs(n / 4000 - (1 - math.exp(-4 * x))))
        for n, x in enumerate(values)
    )
    assert distance < 1.95 / math.sqrt(4000)


def test_poisson_gaps_do_not_depend_on_the_one_before() -> None:
    values = gaps(4.0, 4000)
    mean = sum(values) / len(values)
    below = sum((one - mean) ** 2 for one in values)
    above = sum((a - mean) * (b - mean) for a, b in pairwise(values))
    assert abs(above / below) < 3 / math.sqrt(4000)


def test_gaps_are_not_rescaled_to_a_total() -> None:
    totals = {round(sum(gaps(4.0, 100, seed)), 6) for seed in range(5)}
    assert len(totals) == 5


def test_a_seed_gives_the_same_schedule_again() -> None:
    assert gaps(4.0, 50, 7) == gaps(4.0, 50, 7) != gaps(4.0, 50, 8)


def test_several_clients_share_one_schedule() -> None:
    whole = list(islice(enumerate(arrival_times(10.0, "poisson", 3)), 30))
    parts = [list(islice(part_of(arrival_times(10.0, "poisson", 3), p, 3), 10)) for p in range(3)]
    assert sorted(entry for part in parts for entry in part) == whole
