"""Prometheus' own parser reads the metrics, over HTTP and from a file."""

from __future__ import annotations

import socket
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from benchfleet.domain.telemetry import GpuReading, Reading
from benchfleet.domain.usage import Usage, UsageTotal
from benchfleet.errors import BenchfleetError, MissingExtra
from benchfleet.metrics.collect import Collector
from benchfleet.metrics.serve import serve_metrics
from benchfleet.runner.progress import Notice, Progress, Running

Found = dict[tuple[str, ...], float]


def parsed(text: str) -> Found:
    """Values by name and labels without the campaign's, which each must bear."""
    found: Found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("campaign") == 'a "study"'
            key = (sample.name, *labels.values())
            found[key] = sample.value
    return found


def tell(collector: Collector) -> None:
    busy = Running(slot="s-1", devices="gpu:0", cell="m/c/b", stage="benchmark")
    far = Running(slot="s-2", devices="lab/gpu:1", cell="m/c/b", stage="load")
    gpu = GpuReading(index=0, memory=31, total=80, utilisation=97, power=412.5, temperature=61)
    busy.reading = Reading(at=1.0, ram=500, gpus=(gpu,))
    far.reading = Reading(at=1.0, ram=700, gpus=(GpuReading(index=1, memory=2),))
    used = UsageTotal()
    used.add(Usage(seconds=60, gpus=1, joules=9000, cost=0.25, currency="EUR"))
    progress = Progress(total=9, slots={"s-1": busy, "s-2": far}, used=used)
    progress.states.update(pending=4, running=2, success=2, failed=1)
    progress.tokens.update(prompt=1000, completion=70)
    collector(Notice(kind="run_started"), progress)
    for took in (2.0, 45.0):
        collector(Notice(kind="cell_done", data={"took": took}), progress)
    for kind in ("oom", "oom", "timeout"):
        collector(Notice(kind="cell_failed", data={"failure": ["load", kind]}), progress)


def is_told(found: Found) -> None:
    assert found["benchfleet_cells", "pending"] == 4
    assert found["benchfleet_cells", "cancelled"] == 0
    assert found["benchfleet_cell_seconds_count",] == 2
    assert found["benchfleet_cell_seconds_sum",] == 47
    assert found["benchfleet_cell_seconds_bucket", "3.0"] == 1
    assert found["benchfleet_cell_seconds_bucket", "100.0"] == 2
    assert found["benchfleet_failures_total", "oom", "load"] == 2
    assert found["benchfleet_slots", "benchmark"] == 1
    assert found["benchfleet_slots", "idle"] == 0
    assert found["benchfleet_tokens_total", "completion"] == 70
    assert found["benchfleet_ram_bytes", "lab"] == 700
    assert found["benchfleet_gpu_power_watts", "gpu:0"] == 412.5
    assert found["benchfleet_gpu_memory_bytes", "lab/gpu:1"] == 2
    assert ("benchfleet_gpu_power_watts", "lab/gpu:1") not in found  # it did not tell
    assert found["benchfleet_gpu_seconds_total",] == 60
    assert found["benchfleet_energy_joules_total",] == 9000
    assert found["benchfleet_cost_total", "EUR"] == 0.25


def test_metrics_are_fetched_from_a_port_of_this_machine_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serve_metrics('a "study"', port=0) as collector:
        tell(collector)
        address = capsys.readouterr().err.split()[-1]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310
            is_told(parsed(answer.read().decode()))
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=60)  # noqa: S310


def test_a_file_keeps_the_last_state_and_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "study.prom"
    with serve_metrics('a "study"', file=file) as collector:
        assert parsed(file.read_text())["benchfleet_cells", "success"] == 0
        tell(collector)
    is_told(parsed(file.read_text()))
    assert list(tmp_path.iterdir()) == [file]


def test_a_used_port_and_an_unwritable_file_are_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BenchfleetError, match=f"{port}.*another --metrics-port"):
            serve_metrics("study", port=port).__enter__()
    with pytest.raises(BenchfleetError, match="another --metrics-file"):
        serve_metrics("study", file=tmp_path / "nowhere" / "m.prom").__enter__()


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtra, match=r"pip install 'benchfleet\[metrics\]'"):
        serve_metrics("study", port=0).__enter__()
