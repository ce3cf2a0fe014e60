"""Where the parts of a model lie: `device_map`, checked before transformers reads the weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_STRATEGIES = ("auto", "balanced", "balanced_low_0", "sequential")
_DEVICE = re.compile(r"cpu|disk|(?:cuda|hpu|mps|mtia|npu|xla|xpu)(?::(\d+))?")


def check_device_map(value: Any) -> str | None:
    """What is wrong with a `device_map` as a campaign has it and what to do, or None."""
    if isinstance(value, str) and value in _STRATEGIES:
        return None
    for device in _devices(value):
        if isinstance(device, str) and _DEVICE.fullmatch(device):
            continue
        if isinstance(device, int) and not isinstance(device, bool) and device >= 0:
            continue
        return (
            f"device_map names {device!r}, which is no device; use {', '.join(_STRATEGIES)},"
            " a device such as cpu or cuda:1, or a mapping of the model's parts to devices"
        )
    return None


def check_gpus(value: Any, gpus: int) -> None:
    """Raise ValueError if the map names a GPU that is not among so many, counted from 0."""
    for device in _devices(value):
        match = re.fullmatch(r"(?:cuda:)?(\d+)", str(device))
        if match and int(match[1]) >= gpus:
            many = {0: "no GPU", 1: "one GPU, number 0"}.get(gpus, f"GPUs 0 to {gpus - 1}")
            raise ValueError(
                f"device_map names GPU {match[1]}, and this slot has {many}; change it, or ask for"
                f" more with needs: {{gpus: {int(match[1]) + 1}}}"
            )


def _devices(value: Any) -> Iterator[Any]:
    yield from value.values() if isinstance(value, Mapping) else [value]
