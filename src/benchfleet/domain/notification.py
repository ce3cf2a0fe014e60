"""What a campaign wants to be notified of, and where its addresses are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

NotificationKind = Literal[
    "campaign_done",
    "phase_done",
    "gate_failed",
    "host_lost",
    "budget",
    "budget_spent",
    "failures",
]
SUBJECT = "notifications"  # of the events of a ledger by which workers share messages
NOTIFICATION_KINDS: tuple[NotificationKind, ...] = get_args(NotificationKind)


@dataclass(frozen=True, kw_only=True)
class NotificationSettings:
    """The ``notify`` of a campaign. It holds no address, because addresses are secrets."""

    to: tuple[str, ...]  # env:NAME or file:PATH, each with addresses of Apprise
    on: tuple[NotificationKind, ...] = NOTIFICATION_KINDS
    failures: float = 0.1  # the share of ended cells that may fail
    every: float = 600.0  # seconds between two messages

    def to_dict(self) -> dict[str, Any]:
        """JSON values only; `from_dict` gives the same settings back."""
        return {**vars(self), "to": list(self.to), "on": list(self.on)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> NotificationSettings:
        """Read settings; messages of a newer benchfleet are ignored."""
        on = tuple(kind for kind in NOTIFICATION_KINDS if kind in value["on"])
        return cls(to=tuple(value["to"]), on=on, failures=value["failures"], every=value["every"])
