"""NVML from a recording, so that GPUs can be tested where there is none.

A recording is a JSON file,
``{"driver": "550.54.15", "cuda": "12.4", "gpus": [{"index": 0, "name": "H100", …}]}``,
with the fields of `benchfleet.domain.gpu.GpuState`; those left out have their defaults.
``"error"`` instead of GPUs is why NVML cannot be asked. The file is read at every question, so
that a test can change it while slots run. ``python -m benchfleet.machines.nvml`` prints one of the
machine that it runs on.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from benchfleet.domain.gpu import GpuProcess, GpuState
from benchfleet.errors import DeviceError


class RecordedGpus:
    """Answers from a recording; see `benchfleet.machines.nvml.Nvml`."""

    def __init__(self, file: str | Path) -> None:
        self._file = Path(file)

    def driver(self) -> str:
        return str(self._told().get("driver", ""))

    def cuda(self) -> str:
        return str(self._told().get("cuda", ""))

    def gpus(self) -> tuple[GpuState, ...]:
        told = self._told()
        if "error" in told:
            raise DeviceError(str(told["error"]))
        return tuple(map(_state, told["gpus"]))

    def watched(self, indices: Collection[int]) -> tuple[GpuState, ...]:
        return tuple(gpu for gpu in self.gpus() if gpu.index in indices)

    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._file.read_text("utf-8"))
        return told


def _state(told: dict[str, Any]) -> GpuState:
    processes = tuple(GpuProcess(**one) for one in told.get("processes", ()))
    return GpuState(**{**told, "processes": processes, "xids": tuple(told.get("xids", ()))})
