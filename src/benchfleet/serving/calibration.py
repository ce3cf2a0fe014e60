"""The load client's own limit on this host, against a server that answers at once."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchfleet.serving.instant_server import DEFAULT_CHUNKS
from benchfleet.serving.load_run import LoadRun
from benchfleet.serving.prompts import PLACEHOLDER, synthetic
from benchfleet.serving.request import Request

CALIBRATION_S = 3.0
_PROMPT_WORDS = 16


@contextmanager
def instant_server(
    *, chunks: int = DEFAULT_CHUNKS, gap_ms: float = 0.0, stamps: bool = False
) -> Iterator[str]:
    """The address of such a server, in a process of its own."""
    command = [sys.executable, "-m", "benchfleet.serving.instant_server"]
    process = subprocess.Popen(
        [*command, "--chunks", str(chunks), "--gap-ms", str(gap_ms), *["--stamps"] * stamps],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        if process.stdout is None:
            raise RuntimeError("the server has no output")
        port = int(process.stdout.readline())
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


def instant_spec(url: str, **load: Any) -> dict[str, Any]:
    """The specification of a load on such a server."""
    message = {"role": "user", "content": PLACEHOLDER}
    template = {"model": "instant", "messages": [message], "stream": True}
    bodies = synthetic(template, words=_PROMPT_WORDS, seed=1)
    return {"url": f"{url}/v1/chat/completions", "bodies": bodies, "timeout_s": 60.0, **load}


def run_load(spec: dict[str, Any], *, poll_s: float = 0.05) -> tuple[list[Request], LoadRun]:
    """Run a load to its end; its requests, and the run with its seconds."""
    requests: list[Request] = []
    with LoadRun(spec, ndjson=False) as run:
        while not run.done:
            time.sleep(poll_s)
            requests += run.requests()
        requests += run.requests()
    return requests, run


def calibrate(streams: int, *, seconds: float = CALIBRATION_S) -> dict[str, Any]:
    """Requests and chunks a second that one client reads at so many streams, and its CPU."""
    with instant_server() as url:
        spec = instant_spec(url, concurrency=streams, duration_s=seconds)
        requests, run = run_load(spec, poll_s=0.5)
    span = max((one.end for one in requests), default=0) / 1e9
    good = [one for one in requests if one.ok]
    cpu = sum(one.cpu for one in run.seconds)
    return {
        "streams": streams,
        "requests_per_second": round(len(good) / span, 1) if span else 0.0,
        "chunks_per_second": round(sum(sum(one.lines) for one in good) / span, 1) if span else 0.0,
        "cpu": round(cpu / len(run.seconds), 3) if run.seconds else None,
        "lag_p50_ms": sorted(one.lag_p50_ms for one in run.seconds)[len(run.seconds) // 2]
        if run.seconds
        else None,
    }
