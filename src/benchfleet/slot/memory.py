"""Whether a model's memory came back after it was unloaded: RAM, and the GPU's own count."""

from __future__ import annotations

import ctypes
import gc
import os
import sys

_SLACK = 768 * 2**20  # bytes: a CUDA context, libraries and their workspaces stay
_SHARE = 0.10  # of what the model took


class Memory:
    """What this process held before and after the model was loaded."""

    def __init__(self) -> None:
        self._before = (0, 0)
        self._after = (0, 0)

    def note_before_load(self) -> None:
        self._before = held()

    def note_after_load(self) -> None:
        self._after = held()

    def came_back(self) -> bool:
        """Whether no more than a tenth of the model (and some slack) is still held."""
        gc.collect()
        _trim()
        return all(
            now <= before + _SLACK + _SHARE * max(0, after - before)
            for now, before, after in zip(held(), self._before, self._after, strict=True)
        )


def held() -> tuple[int, int]:
    """Bytes of RAM and of GPU memory that this process holds now."""
    return _resident(), _on_gpus() if os.environ.get("CUDA_VISIBLE_DEVICES") else 0


def _resident() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


def _on_gpus() -> int:
    import pynvml

    total = 0
    pynvml.nvmlInit()
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            for process in pynvml.nvmlDeviceGetComputeRunningProcesses(device):
                if process.pid == os.getpid():
                    total += process.usedGpuMemory or 0
    finally:
        pynvml.nvmlShutdown()
    return total


def _trim() -> None:
    """Ask glibc to hand freed memory back to the system; elsewhere there is no such call."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
