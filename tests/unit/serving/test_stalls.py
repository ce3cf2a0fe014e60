"""Servers that stall until the end of a load point."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchfleet.serving.metrics import Load, point_metrics
from benchfleet.serving.request import Request
from benchfleet.serving.slo import Slo

from .made_requests import MS, S, request


def stalled_run(*, concurrency: int | None, begin: int, end: int, last: int) -> list[Request]:
    """Requests of 200 ms until `last`; those under way from `begin` on are answered after `end`."""
    requests: list[Request] = []

    def send(at: int) -> int:
        stalls = begin - 200 * MS < at < end
        requests.append(request(len(requests), at, ttft=end - at if stalls else 100 * MS))
        return requests[-1].end

    if concurrency is None:
        for n in range(last // (50 * MS)):
            send(n * 50 * MS)
    for _ in range(concurrency or 0):
        at = 0
        while at < last:
            at = send(at)
    return requests


@pytest.mark.parametrize("last", [300 * S, 330 * S])
@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_stall_of_a_closed_loop_counts_also_at_its_end(concurrency: int, last: int) -> None:
    requests = stalled_run(concurrency=concurrency, begin=60 * S, end=310 * S, last=last)
    metrics = point_metrics(requests, Load(concurrency=concurrency), slo=Slo(ttft=0.3))
    answered = len(requests) / (max(one.end for one in requests) / S)
    assert metrics["window_seconds"] == pytest.approx(max(310, last / S), abs=1)
    assert metrics["requests_per_second"] == pytest.approx(answered, rel=0.02)
    assert metrics["slo_share"] == pytest.approx(1 - concurrency / len(requests), abs=0.02)
    assert metrics["slo_share"] < 1


def test_requests_that_time_out_at_the_end_count() -> None:
    answered = [request(n, n * 201 * MS) for n in range(20)]
    hung = replace(
        request(20, 20 * 201 * MS), first=None, last=None, end=14 * S, error="timeout", pieces=()
    )
    metrics = point_metrics([*answered, hung], Load(concurrency=1), slo=Slo(ttft=0.3))
    assert metrics["requests_per_second"] == pytest.approx(20 / 14, rel=0.05)
    assert metrics["slo_share"] < 1


def test_a_stall_of_an_open_loop_counts_though_most_requests_wait_in_it() -> None:
    requests = stalled_run(concurrency=None, begin=4 * S, end=14 * S, last=10 * S)
    load = Load(rate=20.0, arrivals="constant")
    metrics = point_metrics(requests, load, slo=Slo(ttft=0.3))
    assert metrics["window_seconds"] > 6
    assert metrics["slo_share"] < 0.6
    assert metrics["ttft_ms"]["p90"] > 6000
