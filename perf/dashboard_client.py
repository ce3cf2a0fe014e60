"""What viewers of a dashboard see while 200 cells a second change; `dashboard.py` calls it.

dashboard_client.py PORT URL REQUESTS    prints figures as JSON
"""

from __future__ import annotations

import gzip
import json
import re
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

from dashboard_ledger import NAME, turn, write

from benchfleet.ledger.sqlite.ledger import SqliteLedger

PAGES = (
    "",
    "matrix",
    "cells?after=5000",
    "cells?q=config-7",
    "cells?sort=-score&after=50000",
    "failures",
    "machines",
)
ASSETS = ("app.css", "live.js", "keys.js", "htmx.min.js", "icon.svg")


def get(port: int, path: str) -> tuple[float, bytes]:
    """The seconds until an answer was read, and what came over the wire."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    began = time.perf_counter()
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    content = connection.getresponse().read()
    took = time.perf_counter() - began
    connection.close()
    return took, content


def client(port: int, url: str, requests: int) -> None:
    """What viewers see while a writer changes 200 cells a second; prints figures as JSON."""
    figures: dict[str, float] = {}
    get(port, f"/api/status?campaign={NAME}")  # every cell was read
    figures["failed cells on the page of failures"] = failed_cells(
        get(port, f"/c/{NAME}/failures")[1]
    )
    stop = threading.Event()
    writer = threading.Thread(target=write, args=(url, stop))
    writer.start()
    time.sleep(2)
    for page in PAGES:
        times = []
        for number in range(requests):
            mark = "&" if "?" in page else "?"
            times.append(get(port, f"/c/{NAME}/{page}{mark}n={number}")[0])  # never from a cache
        figures[f"p95 /{page}"] = statistics.quantiles(times, n=20)[-1]
    size = sum(len(get(port, f"/static/{name}")[1]) for name in ASSETS)
    figures["first page, bytes"] = size + len(get(port, f"/c/{NAME}/")[1])
    figures["first page, requests"] = 1 + len(ASSETS)
    figures |= streamed(port)
    stop.set()
    writer.join()
    figures |= visible(port, url)
    print(json.dumps(figures))


def failed_cells(page: bytes) -> int:
    """How many cells failed, as the page says."""
    head = re.search(rb"<h1>([\d,]+) cells? without a whole result", gzip.decompress(page))
    assert head is not None, "the page of failures shows none"
    return int(head[1].replace(b",", b""))


def messages(port: int) -> Iterator[bytes]:
    """The lines of a stream."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", f"/api/stream?campaign={NAME}")
    answer = connection.getresponse()
    while line := answer.readline():
        yield line


def streamed(port: int) -> dict[str, float]:
    """What a stream brings in ten seconds."""
    began, size, count = time.monotonic(), 0, -1
    for line in messages(port):
        if line.startswith(b"data"):
            count += 1
        size += len(line) if count > 0 else 0  # the first message has no changes
        if time.monotonic() - began > 10:
            break
    return {"stream, bytes a second": size / 10, "stream, messages a second": count / 10}


def visible(port: int, url: str) -> dict[str, float]:
    """The longest time from a change in the ledger to the message of it, of ten."""
    ledger = SqliteLedger(Path(url.removeprefix("sqlite:///")), campaign=NAME)
    names = [str(one.fingerprint) for one in ledger.cells(states=["pending"])][:10]
    stream = (line for line in messages(port) if line.startswith(b"data"))
    next(stream)
    worst = 0.0
    for name in names:
        before = json.loads(next(stream)[5:])["counts"]["success"] if worst else None
        turn(ledger, [name])
        changed_at = time.monotonic()
        for line in stream:
            message = json.loads(line[5:])
            if message["cells"] and message["counts"]["success"] != before:
                break
        worst = max(worst, time.monotonic() - changed_at)
        break
    ledger.close()
    return {"a change is visible after": worst}


if __name__ == "__main__":
    client(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
