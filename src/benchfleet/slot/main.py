"""The slot program: says hello, then executes one order at a time until it is told to close."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import sys
from collections.abc import Iterator
from typing import Any

import benchfleet
from benchfleet.engines.frames import PROTOCOL, Frame
from benchfleet.slot.channel import Channel
from benchfleet.slot.execute import Executor


def main() -> None:
    """Serve the channel that `launch` handed over."""
    reads, writes = (int(part) for part in sys.argv[1].split(","))
    opening = json.loads(sys.argv[2])
    for handle in (reads, writes):
        os.set_inheritable(handle, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the runner's to answer
    channel = Channel(
        reads,
        writes,
        heartbeat=opening["heartbeat"],
        silence=opening["silence"],
        gone=_end_with_tree,
    )
    channel.start()
    channel.send("hello", **_hello(opening["slot"]))
    executor = Executor(channel)
    while True:
        order = channel.orders.get()
        if order.type == "close":
            executor.unload()
            return
        if order.type == "run":
            with _logging_to(order, opening["log"]):
                fit = executor.run(order)
            if not fit:
                return


def _hello(slot: str) -> dict[str, Any]:
    return {
        "protocol": PROTOCOL,
        "version": benchfleet.__version__,
        "slot": slot,
        "pid": os.getpid(),
        "host": platform.node(),
        "python": platform.python_version(),
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "threads": os.environ.get("OMP_NUM_THREADS", ""),
    }


@contextlib.contextmanager
def _logging_to(order: Frame, between: str) -> Iterator[None]:
    """Point fds 1 and 2 at the attempt's log while it runs, children's output included."""
    _point_output_at(order.fields["log"])
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        _point_output_at(between)


def _point_output_at(file: str) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)


def _end_with_tree(reason: str) -> None:
    """End this process and every descendant, at once: nothing outlives its owner."""
    import psutil

    os.write(2, f"slot ends: {reason}\n".encode())
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()
    os._exit(0)
