"""A short measured benchmark of this machine, in bounded time: memory, matrix, disk and GPU.

What computes does so in processes of its own, which end when their time is over or with
their parent. Rates are bytes or 10⁹ operations a second; None: not measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_BLOCK_BYTES = 4 * 2**20
_MAX_DISK_SHARE = 0.05  # of the free disk, at most


def measure_machine(
    folder: Path, *, quick: bool, gpu: bool, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Everything that can be measured here, with how long it took; `folder` is on the disk that is
    meant, and `tell` hears what is being measured."""
    begun = time.monotonic()
    seconds = 0.4 if quick else 2.0
    tell("memory and matrix product")
    on_cpu = _computed("cpu", seconds)
    tell("disk")
    on_disk = disk_speed(folder, size=(32 if quick else 256) * 2**20, seconds=seconds)
    on_gpu: dict[str, Any] = {}
    if gpu:
        tell("GPU")
        on_gpu = _computed("gpu", seconds)
    return {
        "memory_bandwidth": on_cpu.get("memory_bandwidth"),
        "gflops": on_cpu.get("gflops"),
        "gflops_by": on_cpu.get("by", ""),
        "gpu_gflops": on_gpu.get("gflops"),
        "gpu_bandwidth": on_gpu.get("bandwidth"),
        "disk_write": on_disk.get("write"),
        "disk_read": on_disk.get("read"),
        "notes": [note for one in (on_cpu, on_disk, on_gpu) for note in one.get("notes", ())],
        "quick": quick,
        "seconds": round(time.monotonic() - begun, 2),
    }


def _computed(what: str, seconds: float) -> dict[str, Any]:
    """What the program beside this file found, or a note why it found nothing."""
    timeout = 20 * seconds + (90 if what == "gpu" else 30)  # torch alone may take long to import
    words = [sys.executable, "-m", "benchfleet.machines.probe.compute", what, str(seconds)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired) as error:
        late = isinstance(error, subprocess.TimeoutExpired)
        why = f"took longer than {timeout:.0f} s" if late else str(error)
        return {"notes": [f"the {what.upper()} was not measured: {why}"]}
    for line in reversed(done.stdout.splitlines()):
        with contextlib.suppress(ValueError):
            answer = json.loads(line)
            if isinstance(answer, dict):
                return answer
    last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return {"notes": [f"the {what.upper()} was not measured: {last[:200]}"]}


def disk_speed(folder: Path, *, size: int, seconds: float) -> dict[str, Any]:
    """How fast a file is written and synced, and read again from the disk; the file is gone
    afterwards, whatever happens."""
    try:
        disk = os.statvfs(folder)
        size = min(size, int(disk.f_bavail * disk.f_frsize * _MAX_DISK_SHARE))
        if size < _BLOCK_BYTES:
            raise OSError("it is nearly full")
        with tempfile.TemporaryFile(dir=folder, prefix=".benchfleet-probe-", buffering=0) as file:
            block = os.urandom(_BLOCK_BYTES)
            begun = time.monotonic()
            written = 0
            while written < size and time.monotonic() - begun < seconds:
                written += file.write(block)
            os.fsync(file.fileno())
            write = written / max(1e-9, time.monotonic() - begun)
            cached = _forgotten(file.fileno())
            file.seek(0)
            begun, read = time.monotonic(), 0
            while part := len(file.read(_BLOCK_BYTES)):
                read += part
            rate = read / max(1e-9, time.monotonic() - begun)
    except OSError as error:
        why = error.strerror or str(error)
        return {"notes": [f"the disk of {folder} was not measured: {why}"]}
    notes = ["the disk was read through the cache of the system"] if cached else []
    return {"write": round(write), "read": round(rate), "notes": notes}


def _forgotten(descriptor: int) -> bool:
    """Ask the system to drop what it cached of the file; whether it may still have it."""
    if not hasattr(os, "posix_fadvise"):
        return True
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return False
