"""The serving benchmark on adapters of the simulated server."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.benchmarks.serving.benchmark import Serving
from benchfleet.benchmarks.serving.result import NUMBERS
from benchfleet.models.served.endpoint import Endpoint
from benchfleet.serving import client_bound
from benchfleet.serving.round_trip import round_trip_ms
from benchfleet.testing.simulated_server import Behaviour, SimulatedServer
from kept_sessions import KeptSession

from .sessions import QUICK, SEARCH, session_of


@pytest.mark.parametrize("ollama", [False, True])
def test_a_closed_loop_measures_and_records_each_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ollama: bool
) -> None:
    monkeypatch.setattr(client_bound, "MAX_LAG_MS", 1e9)  # also where the machine is busy
    monkeypatch.setattr(client_bound, "MAX_CPU", 1e9)
    with (
        SimulatedServer(otherwise=Behaviour(first_s=0.02, gap_s=0.005)) as server,
        session_of(server, tmp_path, ollama=ollama) as session,
    ):
        benchmark = Serving({**QUICK, "concurrency": 3, "requests": 60, "slo": {"ttft": "5s"}})
        score = benchmark.run(session)
    assert len(session.samples) == 60
    assert {record.completion_tokens for record in session.samples} == {8}
    summary = score.summary
    assert summary["total_requests"] == summary["successful_requests"] == 60
    assert summary["total_tokens"] == 480
    assert summary["slo_share"] == 1.0
    assert summary["serving"]["round_trip_ms"] is None  # the client is on the server's machine
    assert score.overall == summary["goodput"] > 0
    assert summary["ranked"]
    numbers = {name for name, value in summary.items() if isinstance(value, (int, float))}
    assert numbers <= set(NUMBERS)
    assert next(iter(summary)) == "ranked"  # among the numbers that the ledger keeps
    prompts = sorted(record.prompt_tokens for record in session.samples)
    assert abs(prompts[30] - 30) <= 3  # the server's own count of a prompt
    assert session.checkpoints[-1]["total_tokens"] == 480
    assert json.dumps(score.summary, allow_nan=False)


def test_tokens_per_second_of_an_open_loop_are_no_merit_but_goodput_is(tmp_path: Path) -> None:
    loads: list[dict[str, Any]] = [
        {"rate": "50/s"},
        {"rate": "50/s", "slo": {"e2e": "10s"}},
        {"concurrency": 2},
    ]
    scores = []
    with SimulatedServer() as server:
        for load in loads:
            with session_of(server, tmp_path) as session:
                scores.append(Serving({**QUICK, **load, "requests": 30}).run(session))
    assert [score.summary["ranked"] or score.summary["client_bound"] for score in scores] == [
        scores[0].summary["client_bound"],
        True,
        True,
    ]
    assert scores[1].overall == scores[1].summary["goodput"]
    assert scores[2].overall == scores[2].summary["output_tokens_per_second"]


def test_the_limit_of_the_client_is_measured_once_and_goes_with_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    limits = []
    for _ in range(2):
        with SimulatedServer() as server, session_of(server, tmp_path) as session:
            params = {**QUICK, "calibrate": True, "concurrency": 6, "clients": 2, "requests": 20}
            score = Serving(params).run(session)
        limits.append(score.summary["serving"]["client_limit"])
        assert 0 < score.summary["chunks_per_second"] < limits[-1]["chunks_per_second"]
    assert limits[0] == limits[1]
    assert (limits[0]["streams"], limits[0]["clients"]) == (4, 2)  # three for each, rounded up
    assert limits[0]["host"]
    files = list((tmp_path / "cache").rglob("*.json"))
    assert len(files) == 1
    stored = json.loads(files[0].read_text())
    assert limits[0]["chunks_per_second"] == 2 * stored["chunks_per_second"]


def test_the_round_trip_to_a_server_elsewhere_is_in_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def round_trip(url: str) -> float:
        asked.append(url)
        return 23.4

    monkeypatch.setattr("benchfleet.benchmarks.serving.benchmark.round_trip_ms", round_trip)
    monkeypatch.setattr(Endpoint, "is_local", False)
    with SimulatedServer() as server, session_of(server, tmp_path) as session:
        score = Serving({**QUICK, "requests": 5}).run(session)
        assert asked == [server.url]
    assert score.summary["serving"]["round_trip_ms"] == 23.4


def test_a_round_trip_is_the_time_to_open_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        trip = round_trip_ms(url)
        assert trip is not None
        assert 0 < trip < 5000
    assert round_trip_ms(url) is None


def test_prompts_differ_and_a_seed_repeats_them(tmp_path: Path) -> None:
    seen = []
    for seed in (1, 1, 2):
        with SimulatedServer() as server, session_of(server, tmp_path, seed=seed) as session:
            Serving({**QUICK, "requests": 10}).run(session)
            bodies = [json.dumps(r.body["messages"]) for r in server.requests if r.body["stream"]]
            seen.append(bodies[-10:])
    assert seen[0] == seen[1] != seen[2]
    assert len(set(seen[0])) == 10


def interrupted(
    tmp_path: Path, server: SimulatedServer, params: dict[str, Any], after: int
) -> KeptSession:
    with (
        session_of(server, tmp_path, stop_after=after) as session,
        pytest.raises(KeyboardInterrupt),
    ):
        Serving(params).run(session)
    return session


def test_a_short_part_starts_again_as_a_segment_and_its_samples_stay(tmp_path: Path) -> None:
    params = {**QUICK, "requests": 40}
    with SimulatedServer() as server:
        first = interrupted(tmp_path, server, params, after=10)
        with session_of(server, tmp_path, recorded=first.kept) as session:
            score = Serving(params).run(session)
    assert score.summary["total_requests"] == 40
    assert {record.columns["segment"] for record in session.samples} == {1}
    indices = [record.index for record in [*first.samples, *session.samples]]
    assert indices == list(range(50))
    numbers = [record.columns["n"] for record in session.samples]
    assert min(numbers) == 10  # no prompt is sent twice


def test_a_long_part_is_kept_and_the_rest_is_another_segment(tmp_path: Path) -> None:
    params = {**QUICK, "requests": 40}
    with SimulatedServer() as server:
        first = interrupted(tmp_path, server, params, after=30)
        earlier = []
        for record in first.kept:  # as if it had taken two minutes
            raw = dict(record.resume["request"])
            shift = (record.columns["n"] + 1) * 4_000_000_000
            for name in ("scheduled", "sent", "first", "last", "end"):
                raw[name] += shift
            earlier.append(replace(record, resume={**record.resume, "request": raw}))
        with session_of(server, tmp_path, recorded=earlier) as session:
            score = Serving(params).run(session)
    assert len(session.samples) == 10
    assert score.summary["total_requests"] == 40
    assert score.summary["serving"]["segments"] == 2


def test_a_complete_part_is_only_scored(tmp_path: Path) -> None:
    params = {**QUICK, "requests": 12}
    with SimulatedServer() as server:
        with session_of(server, tmp_path) as first:
            Serving(params).run(first)
        with session_of(server, tmp_path, recorded=first.kept) as session:
            score = Serving(params).run(session)
    assert not session.kept
    assert score.summary["total_requests"] == 12


def test_a_search_journals_its_points_and_a_resume_repeats_none(tmp_path: Path) -> None:
    params = {**SEARCH, "from": 1, "to": 4}
    with SimulatedServer(otherwise=Behaviour(gap_s=0.001)) as server:
        with session_of(server, tmp_path) as first:
            score = Serving(params).run(first)
        assert score.overall == 4
        assert score.summary["conclusion"] == "at least 4"
        asked = len(server.requests)
        points = {record.columns["point"] for record in first.samples}
        assert points == {"concurrency 1", "concurrency 2", "concurrency 4"}
        kept = [r for r in first.kept if r.id != "concurrency 4"]  # interrupted in the last one
        with session_of(server, tmp_path, recorded=kept) as session:
            again = Serving(params).run(session)
        assert len(server.requests) > asked
    assert again.overall == 4
    assert {record.columns["point"] for record in session.samples} == {"concurrency 4"}


def test_a_search_that_misses_at_once_is_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_bound, "MAX_LAG_MS", 1e9)  # also where the machine is busy
    slow = SimulatedServer(otherwise=Behaviour(gap_s=0.01))
    with slow as server, session_of(server, tmp_path) as session:
        score = Serving({**SEARCH, "slo": {"ttft": "1ms", "e2e": "1ms"}}).run(session)
    assert (score.overall, score.summary["conclusion"]) == (0, "below 1")


def test_sharegpt_files_and_other_benchmarks_give_prompts(tmp_path: Path) -> None:
    file = tmp_path / "sharegpt.json"
    talks = [
        [{"from": "human", "value": f"question {n}"}, {"from": "gpt", "value": "word " * 6}]
        for n in range(5)
    ]
    file.write_text(json.dumps([{"conversations": talk} for talk in talks]))
    params = {"calibrate": False, "requests": 10, "output_tokens": 4}
    sources: list[dict[str, Any]] = [
        {"file": str(file)},
        {"prompts": {"benchmark": "mock_benchmark"}},
    ]
    for source in sources:
        benchmark = Serving({**params, **source})
        with SimulatedServer() as server, session_of(server, tmp_path) as session:
            score = benchmark.run(session)
            prompts = {json.dumps(r.body["messages"]) for r in server.requests[-10:]}
        assert len(prompts) == 5
        assert score.summary["successful_requests"] == 10
    assert Serving({**params, "file": str(file)}).data_digest("x")


def test_the_servers_metrics_page_is_sampled(tmp_path: Path) -> None:
    page = 'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:num_requests_running 3.0\n# HELP x\n'
    with (
        SimulatedServer(metrics=page, otherwise=Behaviour(gap_s=0.01)) as server,
        session_of(server, tmp_path) as session,
    ):
        score = Serving({**QUICK, "duration": "2s"}).run(session)
    sample = score.summary["serving"]["server"][0]
    assert (sample["kv_cache"], sample["running"]) == (0.25, 3.0)
    lines = (tmp_path / "server_metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["kv_cache"] == 0.25


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"concurrency": 1, "rate": "4/s"}, "exclude each other"),
        ({"rate": "4"}, "such as 4/s"),
        ({"arrivals": "bursty"}, "poisson or constant"),
        ({"slo": {"ttfb": "1s"}}, "did you mean .ttft."),
        ({"slo": "1s"}, "ttft, tpot, e2e and share"),
        ({"slo": {"ttft": "1h"}}, "such as 500ms"),
        ({"search": "concurrency"}, "needs a limit"),
        ({"search": "rate", "slo": {"ttft": "1s"}, "rate": "4/s"}, "finds the load itself"),
        ({"durations": "3s"}, "did you mean 'duration'"),
        ({"prompts": {"benchmark": "serving"}}, "does not tell its prompts"),
    ],
)
def test_wrong_parameters_are_refused_with_what_to_write(
    params: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Serving(params)
