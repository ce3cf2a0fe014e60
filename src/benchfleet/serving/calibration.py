"""The load client's own limit on this host, against a server that answers at once."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchfleet.serving.instant_server import DEFAULT_CHUNKS, events
from benchfleet.serving.load_run import LoadRun
from benchfleet.serving.prompts import PLACEHOLDER, synthetic
from benchfleet.serving.request import Request

CALIBRATION_S = 3.0
_POLL_S = 0.5
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
    """Requests and chunks a second that one client reads at so many streams, and its CPU.

    Answers are compared with what the server sends, and not parsed: that would take the cores from
    what is measured.
    """
    whole = b"".join(events(DEFAULT_CHUNKS))
    good, end_ns = 0, 0
    with instant_server() as url:
        spec = instant_spec(url, concurrency=streams, duration_s=seconds)
        with LoadRun(spec, ndjson=False) as run:
            is_over = False
            while not is_over:
                time.sleep(_POLL_S)
                is_over = run.done
                for entry in run.entries():
                    good += not entry.fields.get("error") and b"".join(entry.pieces) == whole
                    end_ns = max(end_ns, entry.fields["end"])
    span = end_ns / 1e9
    cpu = sum(one.cpu for one in run.seconds)
    return {
        "streams": streams,
        "requests_per_second": round(good / span, 1) if span else 0.0,
        "chunks_per_second": round(good * DEFAULT_CHUNKS / span, 1) if span else 0.0,
        "cpu": round(cpu / len(run.seconds), 3) if run.seconds else None,
        "lag_p50_ms": sorted(one.lag_p50_ms for one in run.seconds)[len(run.seconds) // 2]
        if run.seconds
        else None,
    }
