"""The clocks and threads of renting: a simulation in virtual time has its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchfleet.ledger.base import since_boot


def _thread(target: Callable[[], None], name: str) -> threading.Thread:
    return threading.Thread(target=target, name=name, daemon=True)


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """What tells the time, and what waits."""

    since_boot: Callable[[], float] = since_boot  # counts while the machine sleeps
    now: Callable[[], float] = time.time  # seconds since the epoch
    event: Callable[[], threading.Event] = threading.Event
    thread: Callable[[Callable[[], None], str], threading.Thread] = _thread
