"""A server's own page ``/metrics``, sampled each second: cache use, queue, running requests."""

from __future__ import annotations

import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping

EVERY_S = 1.0
_TIMEOUT_S = 5.0
_MAX_PAGE_BYTES = 4 * 2**20
# Our name, and those of servers (without labels); of counters the rate is of no interest here.
NAMES: Mapping[str, tuple[str, ...]] = {
    "kv_cache": (
        "vllm:kv_cache_usage_perc",
        "vllm:gpu_cache_usage_perc",
        "sglang:token_usage",
        "llamacpp:kv_cache_usage_ratio",
    ),
    "running": (
        "vllm:num_requests_running",
        "sglang:num_running_reqs",
        "llamacpp:requests_processing",
    ),
    "queued": (
        "vllm:num_requests_waiting",
        "sglang:num_queue_reqs",
        "llamacpp:requests_deferred",
    ),
    "prefix_hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "prefix_queries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefix_hit_rate": ("sglang:cache_hit_rate",),
}
_OURS = {theirs: ours for ours, several in NAMES.items() for theirs in several}
_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{.*\})? ([-+0-9.eE]+)(?: \d+)?$")


def read_page(text: str) -> dict[str, float]:
    """The known numbers of a page in Prometheus's form, summed over their labels."""
    values: dict[str, float] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match and (name := _OURS.get(match[1])):
            values[name] = values.get(name, 0.0) + float(match[2])
    return values


class MetricsSampler:
    """Samples the page from a thread; a context manager. No page is no error."""

    def __init__(self, root: str, *, key: str = "", every_s: float = EVERY_S) -> None:
        self._request = urllib.request.Request(f"{root}/metrics")  # noqa: S310 - the campaign's
        if key:
            self._request.add_header("Authorization", f"Bearer {key}")
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._every_s, self._ended = every_s, threading.Event()
        self._samples: list[tuple[int, dict[str, float]]] = []
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> MetricsSampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=2 * _TIMEOUT_S)

    def samples(self, origin: int, segment: int = 0) -> list[dict[str, float]]:
        """The samples so far, with their seconds since `origin`, a `perf_counter_ns`."""
        return [
            {"at": round((at - origin) / 1e9, 3), "segment": segment, **values}
            for at, values in list(self._samples)
        ]

    def _sample(self) -> None:
        while True:
            try:
                with self._opener.open(self._request, timeout=_TIMEOUT_S) as reply:
                    text = reply.read(_MAX_PAGE_BYTES).decode("utf-8", "replace")
            except urllib.error.HTTPError as error:
                error.close()
                return  # it has no such page
            except OSError:
                text = ""
            if values := read_page(text):
                self._samples.append((time.perf_counter_ns(), values))
            if self._ended.wait(self._every_s):
                return
