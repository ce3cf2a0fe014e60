"""Whether a model's memory came back after it was unloaded: RAM, and the GPU's own count."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from benchfleet.errors import DeviceError, MissingExtra
from benchfleet.machines.nvml import opened

SLACK_BYTES = 768 * 2**20  # a CUDA context, libraries and their workspaces stay
SLACK_SHARE = 0.10  # of what the model took


@dataclass(frozen=True, kw_only=True)
class Held:
    """Bytes held at one moment."""

    ram: int  # by this process
    gpu: int = 0  # by this process, as NVML counts its pid; 0 where NVML tells pids of the host
    device: int = 0  # by everybody on the GPUs of this slot


class Memory:
    """What was held before and after the model was loaded.

    In a container NVML tells the pids of the host, among which this process does not find
    itself; then what everybody holds on the slot's GPUs is compared, and a neighbour that took
    memory meanwhile costs a slot that might have stayed.
    """

    def __init__(self, measure: Callable[[], Held] | None = None) -> None:
        self._measure = measure or held
        self._before = self._after = Held(ram=0)

    def note_before_load(self) -> None:
        self._before = self._after = self._measure()

    def note_after_load(self) -> None:
        self._after = self._measure()

    def came_back(self) -> bool:
        """Whether no more than a tenth of the model (and some slack) is still held; what is,
        and by which count, goes to the log."""
        trim()
        kept = self._still_held()
        if kept:  # to look for cycles takes long, with all that torch brings
            gc.collect()
            trim()
            kept = self._still_held()
        for what, size in kept.items():
            print(f"unloaded, yet {size / 2**30:.1f} GiB are held: {what}", file=sys.stderr)
        return not kept

    def _still_held(self) -> dict[str, int]:
        """Bytes more than there may be, by what counts them."""
        now, before, after = self._measure(), self._before, self._after
        kept = {"RAM of this process": _kept(now.ram, before.ram, after.ram)}
        if now.gpu or before.gpu or after.gpu:
            kept["GPU memory of this process, by NVML"] = _kept(now.gpu, before.gpu, after.gpu)
        else:
            word = "GPU memory of the whole device, by NVML, which does not tell this process apart"
            kept[word] = _kept(now.device, before.device, after.device)
        return {what: size for what, size in kept.items() if size}


def _kept(now: int, before: int, after: int) -> int:
    """Bytes more than before, where they are more than may stay."""
    return now - before if now > before + SLACK_BYTES + SLACK_SHARE * max(0, after - before) else 0


def held() -> Held:
    """What is held now; of GPUs only where this slot has some."""
    indices = [int(part) for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part]
    gpu, device = _on_gpus(indices) if indices else (0, 0)
    return Held(ram=_resident(), gpu=gpu, device=device)


def _resident() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        import psutil

        return int(psutil.Process().memory_info().rss)


def _on_gpus(indices: list[int]) -> tuple[int, int]:
    """Bytes that this process, and that everybody, holds on these GPUs, by NVML's numbers."""
    try:
        with opened() as nvml:
            gpus = [gpu for gpu in nvml.gpus() if gpu.index in indices]
    except MissingExtra as error:
        print(f"GPU memory is not checked: {error}", file=sys.stderr)
        return 0, 0
    if lost := next((gpu for gpu in gpus if gpu.lost), None):
        raise DeviceError(f"gpu:{lost.index}: {lost.fault}")
    used = sum(gpu.memory - gpu.free for gpu in gpus)
    own = sum(one.memory for gpu in gpus for one in gpu.processes if one.pid == os.getpid())
    return own, used


def trim() -> None:
    """Ask glibc to hand freed memory back to the system; elsewhere there is no such call."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
