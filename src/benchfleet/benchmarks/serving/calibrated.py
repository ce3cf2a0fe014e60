"""What the load client can take on this host, measured once and kept."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

import benchfleet
from benchfleet.environment import own_cache
from benchfleet.host_lock import locked
from benchfleet.serving.calibration import calibrate

_MAX_STREAMS = 512


def calibration_of(streams: int) -> dict[str, Any]:
    """Of this version at about so many streams: a power of two, at most 512. Measured by the
    first cell that needs it, in 3 s."""
    size = min(_MAX_STREAMS, 1 << (streams - 1).bit_length())
    name = f"{socket.gethostname()}-{benchfleet.__version__}-{size}.json"
    folder = own_cache(os.environ) / "load-client"
    file = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock"):
        try:
            calibration: dict[str, Any] = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError):
            calibration = {
                "host": socket.gethostname(),
                "version": benchfleet.__version__,
                **calibrate(size),
            }
            file.write_text(json.dumps(calibration), "utf-8")
    return calibration
