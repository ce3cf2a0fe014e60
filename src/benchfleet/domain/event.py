"""A fact appended to the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STORED = "stored"  # the kind of the event that a result was put into a store
# Reasons of releases after which the attempt counts, though nobody may know what it used up.
RUNNER_KILLED = "its runner was killed"
BY_HAND = "by hand: "  # before the reason that a user gives


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened to the campaign, a cell, a host or a slot."""

    kind: str  # snake_case, past tense: retry_asked, cancel_asked, host_lost, …
    fingerprint: str = ""  # the cell it is about, where it is about one
    data: Mapping[str, Any] = field(default_factory=dict)
    seq: int = 0  # given by the ledger, growing; 0 before it is recorded
    at: float = 0.0  # seconds since the epoch by the ledger's clock
