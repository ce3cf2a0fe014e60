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
        return str(self._recording().get("driver", ""))

    def cuda(self) -> str:
        return str(self._recording().get("cuda", ""))

    def gpus(self) -> tuple[GpuState, ...]:
        recording = self._recording()
        if "error" in recording:
            raise DeviceError(str(recording["error"]))
        return tuple(map(_state, recording["gpus"]))

    def watched(self, indices: Collection[int]) -> tuple[GpuState, ...]:
        return tuple(gpu for gpu in self.gpus() if gpu.index in indices)

    def _recording(self) -> dict[str, Any]:
        recording: dict[str, Any] = json.loads(self._file.read_text("utf-8"))
        return recording


def _state(fields: dict[str, Any]) -> GpuState:
    processes = tuple(GpuProcess(**one) for one in fields.get("processes", ()))
    return GpuState(**{**fields, "processes": processes, "xids": tuple(fields.get("xids", ()))})
