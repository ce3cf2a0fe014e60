"""The metrics against an independent oracle, with no tolerance on counts."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from benchfleet.serving.capacity import capacity
from benchfleet.serving.client_bound import client_bound
from benchfleet.serving.cost import billed_cost_per_million, cost_per_million
from benchfleet.serving.energy import energy
from benchfleet.serving.load_run import Second
from benchfleet.serving.metrics import (
    Load,
    checkpoint_summary,
    has_collapsed,
    is_unstable,
    point_metrics,
    windows_of,
)
from benchfleet.serving.request import Request
from benchfleet.serving.slo import Slo
from benchfleet.serving.steady_mean import SteadyMean, half_width

from .made_requests import MS, S, request
from .oracle import nearest_rank, output_rate, steady_edges


def random_run(seed: int, *, concurrency: int | None) -> list[Request]:
    draw = random.Random(seed)
    requests, n = [], 0
    if concurrency is None:
        at = 0
        while at < 60 * S:
            at += round(draw.expovariate(20) * S)
            requests.append(_random_request(draw, n, at))
            n += 1
    else:
        for _ in range(concurrency):
            at = 0
            while at < 60 * S:
                requests.append(_random_request(draw, n, at))
                at, n = requests[-1].end, n + 1
    return requests


def _random_request(draw: random.Random, n: int, sent: int) -> Request:
    late = draw.randrange(2 * MS)
    made = request(
        n,
        sent + late,
        ttft=draw.randrange(20, 300) * MS,
        tokens=draw.randrange(1, 200),
        gap=draw.randrange(1, 20) * MS,
    )
    made = replace(made, scheduled=sent)
    if draw.random() < 0.05:
        made = replace(made, error="http_503", first=None, last=None, tokens=None, pieces=())
    return made


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("concurrency", [1, 8, None])
def test_metrics_agree_with_the_oracle(seed: int, concurrency: int | None) -> None:
    requests = random_run(seed, concurrency=concurrency)
    load = Load(concurrency=concurrency) if concurrency else Load(rate=20.0, arrivals="poisson")
    slo = Slo(ttft=0.2, tpot=0.015)
    metrics = point_metrics(requests, load, slo=slo)
    begin, end = steady_edges(requests, concurrency)
    inside = [r for r in requests if begin <= r.sent <= end]
    good = [r for r in inside if not r.error]
    assert metrics["total_requests"] == len(requests)
    assert metrics["error_count"] == sum(r.error != "" for r in requests)
    assert metrics["errors"].get("http_503", 0) == metrics["error_count"]
    assert metrics["total_tokens"] == sum(r.tokens or 0 for r in requests if not r.error)
    assert metrics["window_requests"] == len(inside)
    assert metrics["ttft_ms"]["count"] == len(good)
    assert metrics["tpot_ms"]["count"] == sum((r.tokens or 0) > 1 for r in good)
    assert metrics["itl_ms"]["count"] == sum(len(r.pieces) - 1 for r in good)
    for percent in (50, 90, 95, 99):
        name = f"p{percent}"
        ttft = [(r.first or 0) - r.sent for r in good]
        late = [(r.first or 0) - r.scheduled for r in good]
        e2e = [(r.last or 0) - r.scheduled for r in good]
        tpot = [
            ((r.last or 0) - (r.first or 0)) / (r.tokens - 1)
            for r in good
            if (r.tokens or 0) > 1 and r.tokens
        ]
        assert metrics["ttft_ms"][name] == pytest.approx(nearest_rank(ttft, percent) / MS, abs=1e-4)
        assert metrics["ttft_scheduled_ms"][name] == pytest.approx(
            nearest_rank(late, percent) / MS, abs=1e-4
        )
        assert metrics["e2e_scheduled_ms"][name] == pytest.approx(
            nearest_rank(e2e, percent) / MS, abs=1e-4
        )
        assert metrics["tpot_ms"][name] == pytest.approx(nearest_rank(tpot, percent) / MS, abs=1e-4)
    assert metrics["output_tokens_per_second"] == pytest.approx(
        output_rate(requests, begin, end), rel=1e-3
    )

    def keeps(r: Request) -> bool:
        spacing = ((r.last or 0) - (r.first or 0)) / max(1, (r.tokens or 0) - 1)
        return r.ok and (r.first or 0) - r.scheduled <= 0.2 * S and spacing <= 0.015 * S

    assert metrics["slo_share"] == pytest.approx(sum(map(keeps, good)) / len(inside), abs=1e-6)
    kept = sum(
        max(0, min(r.end, end) - max(r.sent, begin)) / (r.end - r.sent)
        for r in requests
        if keeps(r)
    )
    assert metrics["goodput"] == pytest.approx(kept / ((end - begin) / S), abs=1e-3)
    assert metrics["goodput"] <= metrics["requests_per_second"]


def test_the_checkpoint_of_several_points_adds_their_times() -> None:
    runs = [[request(0, 5 * S)], [request(0, 3 * S)]]
    one, other, both = (checkpoint_summary(*some) for some in (runs[:1], runs[1:], runs))
    assert both["duration_seconds"] == one["duration_seconds"] + other["duration_seconds"]
    assert both["total_requests"] == 2


def test_the_formulas_of_one_request() -> None:
    one = replace(request(0, 5 * S), scheduled=4 * S)
    assert one.ttft == 100 * MS
    assert one.ttft_scheduled == 1100 * MS
    assert one.tpot == 10 * MS  # without the time to the first token
    assert one.e2e == 200 * MS
    assert one.gaps == [10_000] * 10
    assert request(0, 0, tokens=1).tpot is None
    assert Request.from_dict(one.to_dict()) == one


def test_warm_up_and_drain_are_left_out() -> None:
    slow = [request(n, 0, ttft=3 * S) for n in range(4)]
    steady = [request(4 + n, 4 * S + n * 50 * MS) for n in range(200)]
    metrics = point_metrics([*slow, *steady], Load(concurrency=4))
    assert metrics["ttft_ms"]["p99"] == 100.0
    assert metrics["window_requests"] == 197  # not those sent 200 ms before a stream was free
    assert metrics["total_requests"] == 204


def test_requests_without_a_count_have_no_token_rates() -> None:
    requests = [replace(request(n, n * S), tokens=None, token_source="") for n in range(20)]
    metrics = point_metrics(requests, Load(concurrency=1))
    assert "output_tokens_per_second" not in metrics
    assert metrics["requests_per_second"] > 0


def test_segments_pool_latencies_but_never_rates() -> None:
    first = [request(n, n * S) for n in range(100)]
    second = [replace(request(100 + n, n * S // 4), segment=1) for n in range(100)]
    metrics = point_metrics([*first, *second], Load(concurrency=1))
    assert metrics["segments"] == 2
    assert metrics["requests_per_second"] == pytest.approx(1.0, abs=0.05)  # of the longer one
    assert metrics["ttft_ms"]["count"] > 180
    assert metrics["duration_seconds"] == pytest.approx(99 + 24.75, abs=1)


def test_a_saturated_open_loop_is_unstable() -> None:
    load = Load(rate=10.0, arrivals="constant")
    rising = [request(n, n * S // 10, ttft=(50 + n * 20) * MS) for n in range(600)]
    steady = [request(n, n * S // 10) for n in range(600)]
    for requests, expected in ((rising, True), (steady, False)):
        assert is_unstable(requests, windows_of(requests, load)[0]) is expected


def test_tokens_that_collapse_are_noticed() -> None:
    assert has_collapsed([100.0] * 50 + [5.0] * 10)
    assert not has_collapsed([100.0] * 60)
    assert not has_collapsed([100.0] * 55 + [5.0] * 3 + [100.0] * 2)


def test_a_client_that_is_the_bottleneck_is_named_with_reasons() -> None:
    fine = Second(0, cpu=0.3, lag_p50_ms=1.0, lag_max_ms=9.0, delay_p99_ms=2.0, open=9, part=0)
    assert client_bound([fine] * 100, open_loop=True) == []
    busy = fine._replace(cpu=0.9)
    assert client_bound([fine] * 95 + [busy] * 5, open_loop=False) == []
    (reason,) = client_bound([fine] * 90 + [busy] * 10, open_loop=False)
    assert "0.75 of a core in 10 of 100 seconds" in reason
    late = fine._replace(delay_p99_ms=20.0)
    assert client_bound([late] * 10, open_loop=False) == []
    assert client_bound([late] * 10, open_loop=True)
    assert client_bound([late] * 10, open_loop=True, ttft_limit_s=1.0) == []


def test_energy_is_a_trapezoid_and_gaps_invalidate_it() -> None:
    samples = [(float(t), {0: 100.0, 1: 50.0 + t}) for t in range(11)]
    found = energy(samples, begin=2.0, end=8.0)
    assert found.joules == pytest.approx(600 + 6 * 55)
    assert found.is_valid
    assert found.watts == pytest.approx(155)
    short = energy([s for s in samples if 2 < s[0] < 8], begin=2.0, end=8.0)
    assert short.is_valid  # the edges take the nearest sample
    assert short.joules == pytest.approx(600 + 0.5 * 53 * 2 + 4 * 55 + 0.5 * 57 * 2)
    gappy = energy([s for s in samples if not 3 < s[0] < 7], begin=2.0, end=8.0)
    assert "no sample of power for 4.0 s" in gappy.reasons[0]
    silent = energy(
        [(t, {0: None if t == 5 else 1.0}) for t in map(float, range(10))], begin=1, end=8
    )
    assert silent.reasons == ("gpu:0 did not tell its power",)
    assert not energy([], begin=0, end=1).is_valid


def test_cost_per_million_tokens() -> None:
    assert cost_per_million(3.6, 1000.0) == pytest.approx(1.0)
    assert cost_per_million(3.6, 0.0) is None
    assert billed_cost_per_million(2.0, 4_000_000) == pytest.approx(0.5)


def test_a_mean_is_steady_only_if_two_checks_agree() -> None:
    draw = random.Random(3)
    series = [1000 + draw.gauss(0, 20) for _ in range(200)]
    rule = SteadyMean(0.05)
    assert not rule.is_due(59.9)
    assert rule.is_due(60.0)
    assert not rule.check(series[:60], 500)
    assert rule.check(series[:75], 500)
    assert not SteadyMean(0.05).check(series, 99)
    drifting = [1000.0 + 10 * n for n in range(100)]
    rule = SteadyMean(0.05)
    assert not any(rule.check(drifting, 500) for _ in range(3))


def test_batch_means_are_not_deceived_by_dependent_seconds() -> None:
    draw = random.Random(1)
    wrong = 0
    for _ in range(200):
        series, value = [], 0.0
        for _ in range(120):
            value = 0.8 * value + draw.gauss(0, 60)
            series.append(1000 + value)
        width = half_width(series)
        assert width is not None
        mean = sum(series) / len(series)
        wrong += abs(mean - 1000) > width * mean
    assert wrong / 200 < 0.25  # where intervals of single seconds are wrong in more than half


def test_capacity_is_the_highest_pass_below_every_miss() -> None:
    assert capacity([]) == 0
