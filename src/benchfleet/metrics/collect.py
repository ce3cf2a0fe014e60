"""Prometheus metrics of a run, from its notices.

Labels are the campaign's name, states, stages, kinds, devices and hosts: nothing of which there are
as many as cells or samples, and nothing that a user wrote but the campaign's name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchfleet.domain.state import STATES
from benchfleet.domain.telemetry import GpuReading, Reading
from benchfleet.runner.progress import Notice, Progress, Running

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_BUCKETS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000)  # seconds
_GPU = (
    ("memory_bytes", "Memory in use on the GPU", "memory"),
    ("memory_total_bytes", "Memory of the GPU", "total"),
    ("utilisation_percent", "Share of the time in which the GPU computed", "utilisation"),
    ("power_watts", "Power that the GPU draws", "power"),
    ("temperature_celsius", "Temperature of the GPU", "temperature"),
)


@dataclass(frozen=True)
class _MetricFactory:
    """Makes metrics that all bear the campaign's name."""

    campaign: str

    def gauge(self, name: str, text: str, *labels: str) -> GaugeMetricFamily:
        from prometheus_client.core import GaugeMetricFamily

        return GaugeMetricFamily(f"benchfleet_{name}", text, labels=["campaign", *labels])

    def counter(self, name: str, text: str, *labels: str) -> CounterMetricFamily:
        from prometheus_client.core import CounterMetricFamily

        return CounterMetricFamily(f"benchfleet_{name}", text, labels=["campaign", *labels])


class Collector:
    """Observes a run, and answers Prometheus from any thread."""

    def __init__(self, campaign: str) -> None:
        self.address = ""  # where it is to be asked; "" where it is at no port
        self._metrics = _MetricFactory(campaign)
        self._campaign = campaign
        self._progress = Progress()
        self._failures: Counter[tuple[str, str]] = Counter()
        self._buckets = [0] * (len(_BUCKETS) + 1)
        self._seconds = 0.0

    def __call__(self, notice: Notice, progress: Progress) -> None:
        self._progress = progress
        if notice.kind == "cell_done":
            took = float(notice.data["took"])
            bucket = next((n for n, most in enumerate(_BUCKETS) if took <= most), len(_BUCKETS))
            self._buckets[bucket] += 1
            self._seconds += took
        elif notice.kind == "cell_failed" and notice.data["failure"]:
            stage, kind = notice.data["failure"]
            self._failures[stage, kind] += 1

    def collect(self) -> Iterator[Metric]:
        """Every metric as it stands; what is not known has no value."""
        yield from self._of_cells(self._progress)
        yield from self._of_slots(list(self._progress.slots.values()))
        yield from self._of_use(self._progress)

    def _of_cells(self, progress: Progress) -> Iterator[Metric]:
        from prometheus_client.core import HistogramMetricFamily

        states = dict(progress.states)
        cells = self._metrics.gauge("cells", "Cells of the run by state", "state")
        for state in STATES:
            cells.add_metric([self._campaign, state], states.get(state, 0))
        yield cells
        durations = HistogramMetricFamily(
            "benchfleet_cell_seconds", "Time that cells with a result took", labels=["campaign"]
        )
        counts = [sum(self._buckets[: bucket + 1]) for bucket in range(len(self._buckets))]
        bounds = [*map(str, map(float, _BUCKETS)), "+Inf"]
        buckets = list(zip(bounds, map(float, counts), strict=True))
        durations.add_metric([self._campaign], buckets, self._seconds)
        yield durations
        failures = self._metrics.counter("failures", "Attempts that failed", "stage", "kind")
        for (stage, kind), count in list(self._failures.items()):
            failures.add_metric([self._campaign, stage, kind], count)
        yield failures

    def _of_slots(self, slots: Iterable[Running]) -> Iterator[Metric]:
        count = Counter(slot.stage for slot in slots)
        stages = self._metrics.gauge("slots", "Open slots by what they do", "stage")
        for stage in sorted({"starting", "idle", "load", "benchmark", *count}):
            stages.add_metric([self._campaign, stage], count[stage])
        yield stages
        ram: Counter[str] = Counter()
        gpus: dict[str, GpuReading] = {}
        for slot in slots:
            if (reading := slot.reading) is not None:
                host = slot.devices.rpartition("/")[0]
                ram[host] += reading.ram or 0
                gpus.update(_by_device(host, reading))
        ram_gauge = self._metrics.gauge("ram_bytes", "RAM that slots at work hold, by host", "host")
        for host, size in ram.items():
            ram_gauge.add_metric([self._campaign, host], size)
        yield ram_gauge
        for name, text, field in _GPU:
            gauge = self._metrics.gauge(f"gpu_{name}", text, "device")
            for device, gpu in gpus.items():
                if (value := getattr(gpu, field)) is not None:
                    gauge.add_metric([self._campaign, device], value)
            yield gauge

    def _of_use(self, progress: Progress) -> Iterator[Metric]:
        used = progress.used
        tokens = self._metrics.counter("tokens", "Tokens of prompts and answers", "kind")
        for kind in ("prompt", "completion"):
            tokens.add_metric([self._campaign, kind], progress.tokens[kind])
        yield tokens
        hours = self._metrics.counter("gpu_seconds", "GPU time of attempts that ended")
        hours.add_metric([self._campaign], used.gpu_seconds)
        yield hours
        joules = self._metrics.counter("energy_joules", "Energy of these, where it is known")
        joules.add_metric([self._campaign], used.joules)
        yield joules
        cost = self._metrics.counter("cost", "Money that they cost, where it is known", "currency")
        for currency, amount in list((used.costs or {}).items()):
            cost.add_metric([self._campaign, currency], amount)
        yield cost


def _by_device(host: str, reading: Reading) -> dict[str, GpuReading]:
    return {f"{host}/gpu:{g.index}" if host else f"gpu:{g.index}": g for g in reading.gpus}
