"""The dashboard at 100,000 cells and 200 changes a second: times, sizes, queries, memory.

The server is a thread of this process, which also counts its calls to the ledger. A second process
writes the ledger and asks for pages, as runners and viewers do.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from dashboard_client import PAGES, get, messages
from dashboard_ledger import NAME, create_ledger, write
from measure import BENCHFLEET, aim, arguments, folder

from benchfleet.dashboard.app import application
from benchfleet.dashboard.campaigns import Campaigns, campaigns_of_ledger
from benchfleet.dashboard.security import allowed_hosts
from benchfleet.dashboard.server import listen, serving
from benchfleet.dashboard.stream import Streams
from benchfleet.dashboard.tokens import Tokens

VIEWERS = 200
CLIENT = Path(__file__).with_name("dashboard_client.py")
PAINTS = 5  # each in a context of its own
WARM_UP_REFRESHES = 400


def main() -> None:
    chosen = arguments(
        __doc__ or "",
        numbers={"cells": 100_000, "ended": 20_000, "refreshes": 2_400, "requests": 40},
    )
    gc.set_threshold(100_000)  # as the command line sets it
    with folder(chosen) as work:
        began = time.perf_counter()
        url = create_ledger(work, chosen.cells, chosen.ended)
        took = time.perf_counter() - began
        print(f"{chosen.cells:,} cells, {chosen.ended:,} ended, in {took:.0f} s")
        campaigns = campaigns_of_ledger(url, None)
        streams, listener = Streams(), listen("127.0.0.1", 0)
        port = listener.getsockname()[1]
        hosts = allowed_hosts("127.0.0.1", port, ())
        app = application(campaigns, Tokens(b"k" * 32, port), streams, hosts=hosts, private=False)
        with serving(app, listener, stop=streams.stop):
            command = [sys.executable, str(CLIENT), str(port), url, str(chosen.requests)]
            figures = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            figures |= queries(campaigns, port)
            figures |= in_a_browser(port, url, chosen.refreshes)
        campaigns.stop()
        figures |= started_and_ended(url)
    report(figures)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(figures, indent=2) + "\n")


def queries(campaigns: Campaigns, port: int) -> dict[str, float]:
    """Calls to the ledger a second with 200 viewers that poll, and with none."""
    watcher = campaigns.opened[0].watcher
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            with suppress(OSError):
                get(port, f"/api/changes?campaign={NAME}")
            stop.wait(2.0)

    threads = [threading.Thread(target=poll) for _ in range(VIEWERS)]
    for thread in threads:
        thread.start()
    time.sleep(5)
    before, began = watcher.queries, time.monotonic()
    time.sleep(20)
    rate = (watcher.queries - before) / (time.monotonic() - began)
    stop.set()
    for thread in threads:
        thread.join()
    time.sleep(25)  # until no viewer counts any more
    before = watcher.queries
    time.sleep(10)
    return {
        "queries a second, 200 viewers": rate,
        "queries in 10 s, no viewer": watcher.queries - before,
    }


def in_a_browser(port: int, url: str, refreshes: int) -> dict[str, float]:
    """The first paint with an empty cache, and the memory of a tab and the server while 200 cells
    change a second. An hour has 2,400 refreshes; here they follow one another."""
    try:
        sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
        from browsers import BROWSER, chromium
    except ImportError:
        return {}
    if BROWSER is None:
        return {}
    stop = threading.Event()
    writer = threading.Thread(target=write, args=(url, stop))
    server = psutil.Process(os.getpid())
    with chromium() as browser:
        paints = []
        for _ in range(PAINTS):
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            page.goto(f"http://127.0.0.1:{port}/c/{NAME}/")
            page.wait_for_timeout(1000)
            entry = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            paints.append(page.evaluate(entry) / 1000)
        writer.start()
        session = page.context.new_cdp_session(page)
        refresh(page, WARM_UP_REFRESHES)  # the browser compiles, and fills its caches
        before, memory = tab_state(page, session), server.memory_info().rss
        refresh(page, refreshes)
        after = tab_state(page, session)
        figures = {
            "first contentful paint": statistics.median(paints),
            "first contentful paint of a browser that just started": paints[0],
        }
        for name, value in after.items():
            figures[f"tab {name} after {refreshes} refreshes, ratio"] = value / before[name]
        figures |= {
            f"server memory after {refreshes} refreshes, ratio": server.memory_info().rss / memory,
            "server memory, MB": server.memory_info().rss / 1e6,
        }
    stop.set()
    writer.join()
    return figures


def refresh(page: Any, times: int) -> None:
    """Refresh the live part of the page as its script does."""
    page.evaluate(
        """async (times) => {
            for (let n = 0; n < times; n += 1) {
                const options = {target: "#live", select: "#live", swap: "outerMorph"};
                await htmx.ajax("GET", location.href, options);
            }
        }""",
        times,
    )


def tab_state(page: Any, session: Any) -> dict[str, float]:
    """What a tab holds at least, of ten looks after refreshes: the browser keeps the answers of
    the last refreshes for a while."""
    looks = []
    for _ in range(10):
        refresh(page, 1)
        session.send("HeapProfiler.collectGarbage")
        counters = session.send("Memory.getDOMCounters")
        looks.append(
            {
                "memory": session.send("Runtime.getHeapUsage")["usedSize"],
                "nodes": counters["nodes"],
                "listeners": counters["jsEventListeners"],
            }
        )
    return {name: min(look[name] for look in looks) for name in looks[0]}


def started_and_ended(url: str) -> dict[str, float]:
    """Seconds until the command answers, has its first page and shows every cell; its memory then;
    and seconds from Ctrl-C to its end with a stream open."""
    began = time.perf_counter()
    command = [*BENCHFLEET, "dashboard", "--ledger", url, "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    text = ""
    while not text.rstrip().endswith("}"):
        text += process.stdout.readline()
    port = int(json.loads(text)["address"].rstrip("/").rpartition(":")[2])
    get(port, "/static/app.css")
    started = time.perf_counter() - began
    began = time.perf_counter()
    first = get(port, f"/c/{NAME}/")[0]
    get(port, f"/api/status?campaign={NAME}")
    read = time.perf_counter() - began
    memory = psutil.Process(process.pid).memory_info().rss / 1e6
    stream = messages(port)
    next(stream)
    began = time.perf_counter()
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    return {
        "start to first answer": started,
        "first page, while cells are read": first,
        "first page to every cell": read,
        "memory of a new server with every cell, MB": memory,
        "Ctrl-C to end": time.perf_counter() - began,
    }


def report(figures: dict[str, float]) -> None:
    """Print the figures beside their aims."""
    for name, value in figures.items():
        print(f"{name} | {value:,.3f}")
    for page in PAGES:
        aim(
            f"server p95 of /{page}, ms",
            1000 * figures[f"p95 /{page}"],
            150 if page == "matrix" else 100,
        )
    bounds = {
        "first page, bytes": 60_000,
        "first page, requests": 6,
        "queries a second, 200 viewers": 1.2,
        "queries in 10 s, no viewer": 0,
        "stream, bytes a second": 5_000,
        "stream, messages a second": 1.05,
        "a change is visible after": 2.5,
        "first contentful paint": 0.3,
        "start to first answer": 2,
        "first page, while cells are read": 0.5,
        "Ctrl-C to end": 3,
    }
    for name, bound in bounds.items():
        if name in figures:
            aim(name, figures[name], bound)
    for name, value in figures.items():
        if name.startswith(("tab ", "server memory after")):
            aim(name, value, 1.10)


if __name__ == "__main__":
    main()
