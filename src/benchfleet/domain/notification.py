"""What a campaign wants to be notified of, and where its addresses are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

NotificationKind = Literal[
    "campaign_done", "phase_done", "gate_failed", "host_lost", "budget", "failures"
]
NOTIFICATION_KINDS: tuple[NotificationKind, ...] = get_args(NotificationKind)


@dataclass(frozen=True, kw_only=True)
class NotificationSettings:
    """The ``notify`` of a campaign. It holds no address, because addresses are secrets."""

    to: tuple[str, ...]  # env:NAME or file:PATH, each with addresses of Apprise
    on: tuple[NotificationKind, ...] = NOTIFICATION_KINDS
    failures: float = 0.1  # the share of ended cells that may fail
    every: float = 600.0  # seconds between two messages
