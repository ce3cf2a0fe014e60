"""The capacity search, on simulated servers."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from benchfleet.serving.capacity import Point, Verdict, conclusion, judge, next_level
from benchfleet.serving.request import Request
from benchfleet.serving.slo import Slo, wilson

S = 1_000_000_000
SLO = Slo(ttft=0.5)
GOOD = Request(n=0, scheduled=0, sent=0, first=S // 10, last=S, end=S, tokens=5)
SLOW = replace(GOOD, first=S)


def search(limit: float, *, first: float = 1, most: float = 512, whole: bool = True) -> list[Point]:
    points: dict[float, Verdict] = {}
    while (level := next_level(points, first=first, most=most, whole=whole)) is not None:
        assert level not in points
        assert level <= most
        points[level] = "pass" if level <= limit else "miss"
    return [Point(level=level, verdict=verdict) for level, verdict in points.items()]


@pytest.mark.parametrize("limit", [1, 3, 64, 100, 511, 512])
def test_it_doubles_and_bisects_to_the_limit(limit: int) -> None:
    points = search(limit)
    best = max(one.level for one in points if one.verdict == "pass")
    assert limit * 0.94 - 1 <= best <= limit
    assert len(points) <= 16


def test_it_ends_in_words() -> None:
    assert conclusion(search(0)) == "below 1"
    assert conclusion(search(9999, most=100)) == "at least 100"
    assert conclusion(search(3)) == "3 (pass 3, miss 4)"
    odd = [Point(level=4, verdict="miss", is_decided=False), Point(level=2, verdict="pass")]
    assert conclusion(odd) == "2 (pass 2, miss 4 undecided)"
    limited = [Point(level=8, verdict="pass"), Point(level=16, verdict="client")]
    assert conclusion(limited) == "limit of the client at 16, pass 8"
    above = [
        Point(level=1, verdict="pass"),
        Point(level=4, verdict="pass"),
        Point(level=2, verdict="miss"),
    ]
    assert "but pass 4" in conclusion(above)


def test_it_never_goes_over_the_end() -> None:
    assert max(one.level for one in search(9999, most=100)) == 100
    assert max(one.level for one in search(9999, most=7.5, whole=False)) == 7.5


def test_a_point_passes_by_its_share_of_good_requests() -> None:
    enough = {"steady_s": 30.0, "least_steady_s": 30.0}
    assert judge([GOOD] * 99, SLO, **enough).verdict is None  # too few
    assert judge([GOOD] * 100, SLO, steady_s=29.0, least_steady_s=30.0).verdict is None
    assert judge([GOOD] * 100, SLO, **enough).verdict == "pass"
    assert judge([GOOD] * 70 + [SLOW] * 30, SLO, **enough).verdict == "miss"


def test_a_point_is_extended_while_its_interval_straddles_the_share() -> None:
    enough = {"steady_s": 30.0, "least_steady_s": 30.0}
    some = [GOOD] * 95 + [SLOW] * 5
    assert wilson(95, 100)[0] < 0.95 < wilson(95, 100)[1]
    assert judge(some, SLO, **enough).verdict is None
    last = judge(some * 5, SLO, **enough)
    assert (last.verdict, last.is_decided) == ("miss", False)


def test_a_point_misses_early_when_nothing_could_help() -> None:
    assert judge([SLOW] * 26, SLO, steady_s=1.0, least_steady_s=30.0).verdict == "miss"


def test_over_one_per_cent_of_errors_is_a_miss() -> None:
    failed = replace(GOOD, error="http_503")
    found = judge([GOOD] * 490 + [failed] * 10, SLO, steady_s=30.0, least_steady_s=30.0)
    assert found.verdict == "miss"


@pytest.mark.slow
def test_a_search_is_near_the_true_limit_though_requests_vary() -> None:
    draw, found = random.Random(1), []
    for _ in range(20):
        points: dict[float, Verdict] = {}
        while (level := next_level(points, first=1, most=512, whole=True)) is not None:
            good_share = 1 - 0.05 * (level / 64) ** 4
            requests: list[Request] = []
            while True:
                requests += [GOOD if draw.random() < good_share else SLOW for _ in range(20)]
                verdict = judge(requests, SLO, steady_s=60.0, least_steady_s=30.0).verdict
                if verdict is not None:
                    break
            points[level] = verdict
        found.append(max((k for k, v in points.items() if v == "pass"), default=0))
    assert 50 <= sorted(found)[10] <= 68
