"""Where metrics can be fetched while a run goes on: a port, or a file for node_exporter."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchfleet.errors import BenchfleetError, MissingExtra
from benchfleet.metrics.collect import Collector
from benchfleet.results.disk import write_atomically

WRITE_INTERVAL_S = 5.0  # seconds between writes of the file
LOOPBACK = "127.0.0.1"


@contextlib.contextmanager
def serve_metrics(
    campaign: str, *, port: int | None = None, file: Path | None = None
) -> Iterator[Collector]:
    """Serve metrics at the port (0: any free one) and in the file until the block ends; the file
    keeps the last state.

    Raises MissingExtra without the extra ``metrics``, and BenchfleetError where the port is taken
    or the file cannot be written.
    """
    registry, collector = _registered(campaign)
    with contextlib.ExitStack() as open_until_the_end:
        if port is not None:
            collector.address = open_until_the_end.enter_context(_at_port(registry, port))
        if file is not None:
            open_until_the_end.enter_context(_in_file(registry, file))
        yield collector


def _registered(campaign: str) -> tuple[Any, Collector]:
    try:
        from prometheus_client import CollectorRegistry
    except ImportError:
        raise MissingExtra(
            "metrics need prometheus-client; pip install 'benchfleet[metrics]'"
        ) from None
    registry, collector = CollectorRegistry(auto_describe=False), Collector(campaign)
    registry.register(collector)
    return registry, collector


@contextlib.contextmanager
def _at_port(registry: Any, port: int) -> Iterator[str]:
    """The address until the block ends."""
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, addr=LOOPBACK, registry=registry)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BenchfleetError(
            f"metrics cannot be served at {LOOPBACK}:{port} ({reason}); "
            "choose another --metrics-port"
        ) from None
    address = f"http://{LOOPBACK}:{server.server_port}/metrics"
    print(f"metrics  {address}", file=sys.stderr, flush=True)
    try:
        yield address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def _in_file(registry: Any, file: Path) -> Iterator[None]:
    ended = threading.Event()

    def write() -> None:
        from prometheus_client import generate_latest

        write_atomically(file, generate_latest(registry).decode())

    def go_on() -> None:
        while not ended.wait(WRITE_INTERVAL_S):
            with contextlib.suppress(OSError):  # a full disk; the run matters more
                write()

    try:
        write()
    except OSError as error:
        raise BenchfleetError(
            f"metrics cannot be written to {file} ({error.strerror}); name another --metrics-file"
        ) from None
    writer = threading.Thread(target=go_on, name="metrics", daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()
        with contextlib.suppress(OSError):
            write()
