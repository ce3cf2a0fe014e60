"""Checks that the memory of a model is free again after it was unloaded."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Mapping

from benchfleet.domain.telemetry import Reading
from benchfleet.errors import DeviceError

SLACK_BYTES = 768 * 2**20  # a CUDA context, libraries and their workspaces stay
SLACK_SHARE = 0.10  # of what the model took
RAM = "RAM of the slot"
OWN = "GPU memory of the slot"
DEVICE = "GPU memory of the whole device, which is not split by process"


def held_bytes(reading: Reading) -> dict[str, int]:
    """Bytes held, by kind of memory; a kind that was not measured is left out.

    In a container NVML reports the pids of the host, so a slot does not find itself and `OWN` is
    missing. `DEVICE` includes what neighbours hold.
    """
    own = [gpu.own for gpu in reading.gpus if gpu.own is not None]
    device = [gpu.memory for gpu in reading.gpus if gpu.memory is not None]
    sizes = {} if reading.ram is None else {RAM: reading.ram}
    if own:
        sizes[OWN] = sum(own)
    if device and len(device) == len(reading.gpus):
        sizes[DEVICE] = sum(device)
    return sizes


class Memory:
    """Compares the memory held before and after a model was loaded with what is held now."""

    def __init__(self, measure: Callable[[], Reading]) -> None:
        self._measure = measure
        self._before: Mapping[str, int] = {}
        self._after: Mapping[str, int] = {}

    def note_before_load(self) -> None:
        self._before = self._after = held_bytes(self._measure())

    def note_after_load(self) -> None:
        self._after = held_bytes(self._measure())

    def came_back(self) -> bool:
        """Whether at most a tenth of the model (and some slack) is still held; what is goes to the
        log. Raises DeviceError where that cannot be measured any more."""
        gc.collect()
        trim()
        excess = self._still_held()
        for kind, size in excess.items():
            print(f"unloaded, yet {size / 2**30:.1f} GiB are held: {kind}", file=sys.stderr)
        return not excess

    def _still_held(self) -> dict[str, int]:
        """Bytes more than may stay, by kind of memory."""
        before, after, now = self._before, self._after, held_bytes(self._measure())
        if lost := before.keys() - now.keys() - {OWN}:  # which is 0 without a context
            raise DeviceError(f"cannot be measured any more: {', '.join(sorted(lost))}")
        gpu = OWN if any(OWN in moment for moment in (before, after, now)) else DEVICE
        excess = {}
        for kind in (RAM, gpu):
            grown = now.get(kind, 0) - before.get(kind, 0)
            model_size = max(0, after.get(kind, 0) - before.get(kind, 0))
            if grown > SLACK_BYTES + SLACK_SHARE * model_size:
                excess[kind] = grown
        return excess


def trim() -> None:
    """Ask glibc to hand freed memory back to the system; elsewhere there is no such call."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
