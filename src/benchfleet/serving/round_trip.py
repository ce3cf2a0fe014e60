"""The round trip from the load client's machine to the server."""

from __future__ import annotations

import socket
import time
from statistics import median
from urllib.parse import urlsplit

TRIES = 5
TIMEOUT_S = 5.0


def round_trip_ms(url: str) -> float | None:
    """The median time to open a connection to the server at `url`, which is one round trip; None
    if it cannot be reached."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    times = []
    for _ in range(TRIES):
        begin = time.perf_counter()
        try:
            with socket.create_connection((parts.hostname or "", port), timeout=TIMEOUT_S):
                times.append(time.perf_counter() - begin)
        except OSError:
            return None
    return round(median(times) * 1000, 3)
