"""The slot program: sends hello, then executes one request at a time until the engine closes it."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import json
import os
import platform
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import benchfleet
from benchfleet.domain.telemetry import Reading
from benchfleet.engines.frames import PROTOCOL, Frame
from benchfleet.slot.channel import Channel
from benchfleet.slot.execute import Executor
from benchfleet.slot.telemetry import Sampler


def main() -> None:
    """Serve the channel that `launch` handed over, to its end."""
    _serve()
    # What Python would take apart now, the process's end takes anyway: with torch and a model that
    # is most of a second, for which a run waits.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _serve() -> None:
    faulthandler.enable(2, all_threads=False)  # a crash leaves its Python stack in the log
    reads, writes, tells = (int(part) for part in sys.argv[1].split(","))
    opening = json.loads(sys.argv[2])
    for handle in (reads, writes, tells):
        os.set_inheritable(handle, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the runner's to answer
    channel = Channel(
        reads,
        writes,
        heartbeat=opening["heartbeat"],
        silence=opening["silence"],
        on_lost=_end,
    )
    channel.start()
    if opening["gpus"] and "gpu_checks" in opening and not _is_fit(opening, channel):
        channel.requests.get()  # to be ended, in whatever way
        return
    channel.send("hello", **_hello(opening["slot"]))
    executor = Executor(channel, Sampler(partial(_send_reading, channel)))
    recorded: list[Frame] = []  # earlier samples, which come in pieces before their request
    while True:
        request = channel.requests.get()
        if request.type == "close":
            executor.leave()
            return
        if request.type == "recorded":
            recorded.append(request)
        if request.type == "run":
            request, recorded = _with_recorded(request, recorded), []
            ram = request.fields["cell"]["limits"].get("ram") or 0
            os.write(tells, f"ram {ram}\n".encode())
            with _output_of(request, opening):
                fit = executor.run(request)
            if not fit:
                return


def _is_fit(opening: dict[str, Any], channel: Channel) -> bool:
    """Whether its GPUs may be used; if not, the slot reports why."""
    from benchfleet.slot.gpu_checks import check_gpus, parse_rules

    unfit = check_gpus(parse_rules(opening))
    if unfit is not None:
        channel.send("unfit", reason=unfit.reason, gpus=list(unfit.gpus), busy=unfit.busy)
    return unfit is None


def _send_reading(channel: Channel, attempt: str, reading: Reading) -> None:
    channel.send("reading", attempt=attempt, reading=reading.to_dict())


def _with_recorded(request: Frame, recorded: list[Frame]) -> Frame:
    attempt = request.fields["attempt"]
    of_this = (frame for frame in recorded if frame.fields["attempt"] == attempt)
    return replace(request, attached=tuple(piece for frame in of_this for piece in frame.attached))


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
def _output_of(request: Frame, opening: dict[str, Any]) -> Iterator[None]:
    """Point fds 1 and 2 at the attempt's log while it runs, children's output included; or, where
    all goes over one line, mark the end of it."""
    if request.fields["log"]:
        _point_output_at(request.fields["log"])
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if request.fields["log"]:
            _point_output_at(opening["log"])
        else:
            os.write(2, f"\0{opening['marker_key']} end {request.fields['attempt']}\0".encode())


def _point_output_at(file: str) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)


def _end(reason: str) -> None:
    """End this process at once; its supervisor ends what it started."""
    with contextlib.suppress(OSError):  # a disk that is full keeps nobody alive
        os.write(2, f"slot ends: {reason}\n".encode())
    os.killpg(0, signal.SIGKILL)
