"""The load client, a real process, against the golden simulator."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, deque
from itertools import pairwise
from typing import Any

import psutil
import pytest

from benchfleet.serving.load_run import ClientLost, LoadRun
from benchfleet.serving.prompts import PLACEHOLDER, synthetic, synthetic_text
from benchfleet.serving.request import Request
from benchfleet.testing.simulated_answers import answer_tokens
from benchfleet.testing.simulated_server import Behaviour, SimulatedServer

WORDS, LIMIT_S = 5, 120.0


def spec_of(server: SimulatedServer, *, ndjson: bool = False, **load: Any) -> dict[str, Any]:
    message = {"role": "user", "content": PLACEHOLDER}
    template = {"model": server.model, "messages": [message], "stream": True}
    if not ndjson:
        template["stream_options"] = {"include_usage": True}
    path = "/api/chat" if ndjson else "/v1/chat/completions"
    bodies = synthetic(template, words=WORDS, seed=1)
    return {"url": server.url + path, "bodies": bodies, "timeout_s": 60.0, **load}


def ran(
    spec: dict[str, Any], *, ndjson: bool = False, clients: int = 1
) -> tuple[list[Request], LoadRun]:
    requests: list[Request] = []
    until = time.monotonic() + LIMIT_S
    with LoadRun(spec, ndjson=ndjson, clients=clients) as run:
        while not run.done and time.monotonic() < until:
            requests += run.requests()
            time.sleep(0.02)
        requests += run.requests()
        assert run.done
    return sorted(requests, key=lambda one: one.n), run


@pytest.mark.parametrize(
    ("ndjson", "per_chunk", "streams"),
    [(False, 1, 4), (False, 3, 200), (True, 1, 200), (True, 3, 4)],
)
def test_counts_and_texts_are_exactly_what_the_server_sent(
    ndjson: bool, per_chunk: int, streams: int
) -> None:
    count = 10 * streams if streams == 4 else 2 * streams
    behaviour = Behaviour(tokens=10, tokens_per_chunk=per_chunk)
    with SimulatedServer(otherwise=behaviour) as server:
        spec = spec_of(server, ndjson=ndjson, concurrency=streams, requests=count)
        requests, _ = ran(spec, ndjson=ndjson, clients=2)
    assert [one.n for one in requests] == list(range(count))
    for one in requests:
        prompt = f"user: {synthetic_text(1, one.n, WORDS)}"
        assert one.text == "".join(answer_tokens(prompt, 10))
        assert (one.tokens, one.error, one.finish) == (10, "", "stop")
        assert sum(one.lines) == -(-10 // per_chunk)  # chunks, which are not tokens
    assert len({one.text for one in requests}) == count


def test_times_are_those_of_the_server_within_a_millisecond() -> None:
    errors: list[float] = []
    for _ in range(5):  # the best of some: a busy machine disturbs single runs
        with SimulatedServer(otherwise=Behaviour(first_s=0.01, gap_s=0.005)) as server:
            requests, run = ran(spec_of(server, concurrency=1, requests=20))
            written = server.written
        late = []
        for one, times in zip(requests, written, strict=True):
            assert one.first is not None
            assert one.tokens == len(times) == 8
            if len(one.pieces) < len(times):
                continue  # a busy machine read several chunks at once
            late.append(abs(run.origin + one.first - times[0]) / 1e6)
            gaps = [(b - a) / 1e6 for a, b in pairwise(times)]
            late += [abs(gap / 1000 - true) for gap, true in zip(one.gaps, gaps, strict=True)]
        if not late:
            continue
        errors.append(sorted(late)[len(late) // 2])
        if errors[-1] < 1.0:
            return
    pytest.fail(f"the median error was {errors} ms")


def test_each_fault_is_a_failure_of_its_own_kind_and_nothing_is_sent_again() -> None:
    script = deque(
        [
            Behaviour(fault="error_in_stream"),
            Behaviour(fault="no_last_object"),
            Behaviour(fault="dropped"),
            Behaviour(fault="reset"),
            Behaviour(status=503),
            Behaviour(status=429),
            Behaviour(),
            Behaviour(role_chunk=False),
        ]
    )
    with SimulatedServer(script=script) as server:
        requests, _ = ran(spec_of(server, concurrency=1, requests=8))
        received = len(server.requests)
    assert received == 8
    kinds = [one.error for one in requests]
    assert kinds == [
        "error_in_stream",
        "incomplete",
        "cut_body",
        "reset",
        "http_503",
        "http_429",
        "",
        "",
    ]
    assert requests[4].message == "simulated 503"


def test_a_slow_answer_is_a_timeout_and_a_slow_first_token_is_in_the_ttft() -> None:
    script = deque([Behaviour(stall_s=30.0), Behaviour(first_s=0.4)])
    with SimulatedServer(script=script) as server:
        requests, _ = ran(spec_of(server, concurrency=1, requests=2) | {"timeout_s": 1.0})
    assert requests[0].error == "timeout"
    assert requests[1].ttft is not None
    assert requests[1].ttft >= 400_000_000


def test_an_absent_server_makes_failures_and_no_spinning() -> None:
    with SimulatedServer() as server:
        spec = spec_of(server, concurrency=2, duration_s=1.0)
    requests, _ = ran(spec)
    assert Counter(one.error for one in requests).keys() == {"connect"}
    assert len(requests) < 60


def test_open_loop_sends_by_the_schedule_without_drift() -> None:
    def lateness() -> int:
        with SimulatedServer(otherwise=Behaviour(tokens=1)) as server:
            spec = spec_of(server, rate=200.0, arrivals="constant", seed=1, requests=800)
            requests, _ = ran(spec)
        assert [one.scheduled for one in requests] == [5_000_000 * n for n in range(800)]
        return min(one.sent - one.scheduled for one in requests[-100:])

    # Sleeping gap by gap, all of them are 130 ms late by then. A busy machine is late at times.
    assert any(lateness() < 70_000_000 for _ in range(20))


@pytest.mark.parametrize("cap", [None, 8])
def test_a_stall_shows_in_the_latencies_of_an_open_loop(cap: int | None) -> None:
    """Coordinated omission: requests that were due in a stall count from when they were due."""
    with SimulatedServer(otherwise=Behaviour(tokens=2, first_s=0.01)) as server:
        spec = spec_of(server, rate=30.0, arrivals="constant", seed=1, duration_s=4.0)
        requests: list[Request] = []
        with LoadRun({**spec, "connections": cap}, ndjson=False) as run:
            while run.elapsed_s < 1.0:
                time.sleep(0.01)
            server.stall(2.0)
            while not run.done:
                requests += run.requests()
                time.sleep(0.02)
            requests += run.requests()
    due = sorted(one.ttft_scheduled or 0 for one in requests)
    assert due[len(due) * 9 // 10] > 1_200_000_000
    sent = sorted(one.ttft or 0 for one in requests)
    if cap:  # from sent, waiting for a connection is hidden
        assert sent[len(sent) * 8 // 10] < 1_000_000_000


def test_a_closed_loop_hides_the_stall() -> None:
    with SimulatedServer(otherwise=Behaviour(tokens=2, first_s=0.01)) as server:
        requests: list[Request] = []
        with LoadRun(spec_of(server, concurrency=2, duration_s=3.0), ndjson=False) as run:
            while run.elapsed_s < 1.0:
                time.sleep(0.01)
            server.stall(1.0)
            while not run.done:
                requests += run.requests()
                time.sleep(0.02)
            requests += run.requests()
    slow = [one for one in requests if (one.ttft or 0) > 500_000_000]
    assert len(slow) <= 4 < len(requests) / 4


def test_a_killed_client_is_named_and_what_it_had_written_is_kept() -> None:
    with SimulatedServer() as server:
        spec = spec_of(server, concurrency=2, duration_s=60.0)
        requests: list[Request] = []
        with LoadRun(spec, ndjson=False) as run:
            while len(requests) < 20:
                requests += run.requests()
                time.sleep(0.02)
            os.kill(run.pids[0], signal.SIGKILL)
            with pytest.raises(ClientLost, match="signal 9"):
                _read_on(run, requests)
        assert len({one.n for one in requests}) == len(requests) >= 20


def _read_on(run: LoadRun, requests: list[Request]) -> None:
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        requests.extend(run.requests())
        time.sleep(0.02)


def test_a_client_ends_with_its_parent() -> None:
    with SimulatedServer() as server:
        run = LoadRun(spec_of(server, concurrency=1, duration_s=60.0), ndjson=False)
        with run:
            process = psutil.Process(run.pids[0])
            stdin = run._processes[0].stdin
            assert stdin
            stdin.close()
            process.wait(timeout=60)


def test_the_client_says_each_second_how_it_fares() -> None:
    with SimulatedServer(otherwise=Behaviour(gap_s=0.01)) as server:
        _, run = ran(spec_of(server, concurrency=2, duration_s=2.5), clients=2)
    assert {(one.second, one.part) for one in run.seconds} >= {(0, 0), (1, 0), (0, 1), (1, 1)}
    assert all(0 <= one.cpu < 2 and one.open <= 1 for one in run.seconds)
