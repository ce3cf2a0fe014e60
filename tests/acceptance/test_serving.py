"""Serving campaigns from the command line, against a simulated server."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from benchfleet.testing.simulated_server import Behaviour, SimulatedServer
from stand_in_servers import llama_server

from .conftest import User, samples_kept, until, well

STUDY = """\
campaign: study
matrix:
  models:
    - {name: m, adapter: openai, model: simulated, url: "%s/v1"}
  benchmarks:
    - serving:
        subsets: {c2: {concurrency: 2}, p9: {rate: 30/s}}
        requests: 60
        duration: 60s
        input_tokens: 20
        output_tokens: 4
        calibrate: false
        slo: {ttft: 10s}
    - mock_benchmark
"""


def test_quality_cells_and_load_points_share_a_run_and_load_points_have_their_server_alone(
    user: User,
) -> None:
    study = STUDY.replace("{rate: 30/s}", "{rate: 30/s, output_tokens: 5, slo: null}")
    study = f"endpoint_slots: 2\n{study}    - recall: {{samples: 40, subsets: ['64', '128']}}\n"
    with SimulatedServer(otherwise=Behaviour(gap_s=0.002)) as server:
        user.write(study % server.url)
        user.run("run", "study.yaml", "--cpu-slots", "2")
        report = user.run("report", "study.yaml", "--format", "markdown").stdout
        user.run("report", "study.yaml", "--format", "html")
        lengths = [request.body["max_tokens"] for request in server.requests]
    assert len(user.published()) == 5
    for own in (4, 5):  # each load point asks for answers of its own length
        first, last = lengths.index(own), len(lengths) - lengths[::-1].index(own)
        assert set(lengths[first:last]) == {own}
    assert "c2: concurrency 2" in report
    assert "p9: 30/s poisson" in report
    won = report.split("## What won")[1].split("## ")[0]
    assert "recall" in won
    assert "p9" not in won  # its tokens per second are those that were asked for
    html = (user.results / "report.html").read_text()
    assert html.count("data:image/svg+xml;base64,") == 5
    summary = json.loads((user.results / "m/dense/serving_c2/metrics.json").read_text())["summary"]
    assert summary["total_requests"] == 60
    assert summary["client_bound"] in (True, False)


def test_speed_and_cost_of_a_load_point_are_the_same_in_report_and_manifest(user: User) -> None:
    """At 0.10 and 0.40 USD for a million tokens in and out, the price of 16 tokens of an answer and
    of its prompt, however long the point took."""
    study = STUDY.replace('url: "%s/v1"}', 'url: "%s/v1", price: {in: 0.10 USD, out: 0.40 USD}}')
    study = study.replace("output_tokens: 4", "output_tokens: 16").replace(", p9: {rate: 30/s}", "")
    with SimulatedServer(otherwise=Behaviour(gap_s=0.002)) as server:
        user.write(study.replace("    - mock_benchmark\n", "") % server.url)
        user.run("run", "study.yaml", "--cpu-slots", "1")
    report = user.json("report", "study.yaml")
    (point,), (entry,) = report["serving"], report["entries"]
    (row,) = user.json("manifest", "study.yaml")["manifest"]
    speed = point["metrics"]["output_tokens_per_second"]
    assert row["tokens_per_second"] == entry["tokens_per_second"] == speed
    assert (row["total_requests"], row["error_count"]) == (60, 0)
    samples = user.results / "m/dense/serving_c2/samples.jsonl"
    records = [json.loads(line) for line in samples.read_text().splitlines()]
    prompts, answers = (
        sum(one[name] for one in records) for name in ("prompt_tokens", "completion_tokens")
    )
    paid = (0.10 * prompts + 0.40 * answers) / answers
    assert point["cost_per_million"] == {"tokens": pytest.approx(paid), "currency": "USD"}
    assert row["cost_per_million_tokens"] == pytest.approx(paid)
    text = (user.results / "BENCHMARK_REPORT.md").read_text()
    assert f"| endpoint | local | m | 1 | {speed:.1f} |  | {paid:.3f} USD |" in text


ON_A_GPU = """\
campaign: study
price: $3.6/gpu/h
matrix:
  models:
    - name: m
      adapter: llama_cpp
      path: ./tiny.gguf
      needs: {gpus: 1}
      server: {args: [--gap-ms, 5]}
  configs: {five: null, ten: {server: {args: [--gap-ms, 10]}}}
  benchmarks:
    - serving:
        subsets: {c2: {concurrency: 2}, c1: {}}
        duration: 3s
        output_tokens: 8
        calibrate: false
"""


def test_power_memory_and_cost_of_a_server_on_a_gpu_are_measured_with_one_start_a_config(
    user: User, gpus: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU is that of a recording, which tells a power of 300 W."""
    gpus(well(0, power=300.0))
    program = llama_server(user.folder / "bin")
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    user.write("weights", "tiny.gguf")
    user.write(ON_A_GPU)
    user.run("run", "study.yaml", "--gpus", "0")
    points = json.loads(user.run("report", "study.yaml", "--json").stdout)["serving"]
    assert len(points) == 4
    for point in points:
        metrics, cost = point["metrics"], point["cost_per_million"]
        tokens = metrics["output_tokens_per_second"]
        assert (metrics["watts"], metrics["power_valid"]) == (300.0, True), metrics["power_reasons"]
        assert metrics["joules_per_token"] == pytest.approx(300 / tokens, rel=0.01)
        assert metrics["load_seconds"] > 0
        assert metrics["server_ram"] > 10**6
        assert metrics["server_gpu_memory"] == 10**9  # that everybody holds on it
        assert cost["measured"] == pytest.approx(3.6 / 3600 / tokens * 1e6, rel=0.01)
        assert cost["billed"] > cost["measured"]
        assert cost["billed_seconds"] > cost["measured_seconds"]
    cells = [json.loads(text) for text in user.published().values()]
    urls = {cell["provenance"]["model"]["url"] for cell in cells}
    assert len(urls) == 2


def test_a_server_that_dies_leaves_a_partial_cell_and_the_next_run_goes_on(user: User) -> None:
    study = STUDY.replace("requests: 60", "requests: 2000").replace("    - mock_benchmark\n", "")
    study = study.replace(", p9: {rate: 30/s}", "").replace(
        "matrix:", "defaults: {limits: {tries: 1}}\nmatrix:", 1
    )
    server = SimulatedServer(otherwise=Behaviour(gap_s=0.002))
    with server:
        user.write(study % server.url)
        run = user.start("run", "study.yaml", "--cpu-slots", "1")
        until(lambda: samples_kept(user) > 20)
    run.communicate(timeout=240)
    status = user.run("status", "study.yaml", "--json", code=None).stdout
    failures = user.run("failures", "study.yaml", code=None).stdout
    assert "server_unavailable" in failures
    assert "The model's server is away or overloaded: start or repair it" in failures
    assert "partial" in status
    report = json.loads(user.run("report", "study.yaml", "--json").stdout)
    (point,) = report["serving"]
    assert point["state"] == "partial"
    assert point["metrics"]["total_requests"] > 20
    with SimulatedServer(otherwise=Behaviour(), port=server.port):
        user.write((study % server.url).replace("requests: 2000", "requests: 50"))
        user.run("run", "study.yaml", "--cpu-slots", "1", code=None)
    assert (user.results / "m/dense").is_dir()


def test_a_point_that_nobody_answers_fails_and_one_with_many_errors_has_a_warning(
    user: User,
) -> None:
    study = STUDY.replace("{concurrency: 2}", "{concurrency: 2, output_tokens: 5}")
    study = study.replace("p9: {rate: 30/s}", "c1: {concurrency: 1}").replace(
        "    - mock_benchmark\n", ""
    )
    study = study.replace("matrix:", "defaults: {limits: {tries: 1}}\nmatrix:", 1)
    streams = itertools.count()

    def respond(body: dict[str, Any]) -> Behaviour | None:
        is_measured = body["stream"] and body["max_tokens"] in (4, 5)
        fails = is_measured and (body["max_tokens"] == 5 or next(streams) % 2)
        return Behaviour(status=500) if fails else None

    with SimulatedServer(otherwise=Behaviour(gap_s=0.002), respond=respond) as server:
        user.write(study % server.url)
        shown = user.run("run", "study.yaml", "--cpu-slots", "1", code=1).stdout
    assert "benchmark: server_unavailable (60 of 60 requests failed (60 http_500)" in shown
    assert "warning: m / dense / c1: concurrency 1: 30 of 60 requests failed" in shown
    report = user.json("report", "study.yaml")
    assert report["counts"]["partial"] == report["counts"]["success"] == 1
    assert {point["state"] for point in report["serving"]} == {"partial", "success"}


def clients_of(run: subprocess.Popen[str]) -> list[psutil.Process]:
    """The load clients below a run."""
    found = []
    for process in psutil.Process(run.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "benchfleet.serving.client" in process.cmdline():
                found.append(process)
    return found


def test_a_client_that_is_killed_in_an_answer_is_named_and_the_retry_goes_on(user: User) -> None:
    study = STUDY.replace("requests: 60", "requests: 150").replace("    - mock_benchmark\n", "")
    study = study.replace(", p9: {rate: 30/s}", "")
    with SimulatedServer(otherwise=Behaviour(gap_s=0.02)) as server:
        user.write(study % server.url)
        run = user.start("run", "study.yaml", "--cpu-slots", "1")
        until(lambda: samples_kept(user) > 20)
        (client,) = clients_of(run)
        client.kill()
        assert run.wait(240) == 0
    assert not client.is_running()
    (file,) = (user.results / ".attempts").glob("*/*/failure.json")
    failure = json.loads(file.read_text())
    assert (failure["stage"], failure["kind"]) == ("benchmark", "crash")
    assert "load client" in failure["message"]
    kept = (file.parent / "samples.jsonl").read_text().splitlines()
    (cell,) = (user.results / "m/dense").iterdir()
    records = [json.loads(line) for line in (cell / "samples.jsonl").read_text().splitlines()]
    segments = Counter(record["columns"]["segment"] for record in records)
    assert segments == {0: len(kept), 1: 150}
    assert len(kept) > 20


def test_a_killed_run_leaves_nothing_running_and_resumes(user: User) -> None:
    study = STUDY.replace("requests: 60", "requests: 400").replace("    - mock_benchmark\n", "")
    study = study.replace(", p9: {rate: 30/s}", "")
    with SimulatedServer(otherwise=Behaviour(gap_s=0.01)) as server:
        user.write(study % server.url)
        run = user.start("run", "study.yaml", "--cpu-slots", "1")
        until(lambda: samples_kept(user) > 20)
        run.send_signal(signal.SIGKILL)
        run.communicate(timeout=60)
        count = -1
        while count != len(server.requests):  # no client goes on
            count = len(server.requests)
            time.sleep(3)
        assert count < 400
        server.otherwise = Behaviour()
        user.run("run", "study.yaml", "--cpu-slots", "1")
    (cell,) = (user.results / "m/dense").iterdir()
    records = [json.loads(line) for line in (cell / "samples.jsonl").read_text().splitlines()]
    assert {record["columns"]["segment"] for record in records} == {0, 1}
    summary = json.loads((cell / "metrics.json").read_text())["summary"]
    assert summary["total_requests"] == 400
