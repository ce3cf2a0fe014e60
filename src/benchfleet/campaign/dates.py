"""``since=DATE`` and ``until=DATE``: results that ended in a span of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from benchfleet.errors import CampaignError, Mistake


class Ended(Protocol):
    """What has an end."""

    @property
    def ended_at(self) -> float | None:
        """Seconds since the epoch; None while it runs."""


@dataclass(frozen=True, kw_only=True)
class Dates:
    """A span of time, its end excluded, in seconds since the epoch."""

    since: float = -math.inf
    until: float = math.inf

    def __bool__(self) -> bool:
        return self != Dates()

    def includes(self, attempts: Sequence[Ended]) -> bool:
        """Whether the last of these attempts ended within the span."""
        ended_at = attempts[-1].ended_at if attempts else None
        return ended_at is not None and self.since <= ended_at < self.until


def split_dates(selections: Sequence[str]) -> tuple[Dates, list[str]]:
    """The span that the selections name, and the selections that are no dates.

    A date is ``2026-11-01``, which begins at midnight, or ``2026-11-01T12:30``; without a time zone
    it is local. Raises CampaignError for one that cannot be read.
    """
    bounds = {"since": -math.inf, "until": math.inf}
    others, mistakes = [], []
    for selection in selections:
        key, _, text = selection.partition("=")
        if key not in bounds:
            others.append(selection)
            continue
        try:
            bounds[key] = datetime.fromisoformat(text).timestamp()
        except ValueError:
            message = f"invalid date {text!r}: use {key}=2026-11-01 or {key}=2026-11-01T12:30"
            mistakes.append(Mistake(key=selection, message=message))
    if mistakes:
        raise CampaignError("command line", mistakes)
    return Dates(**bounds), others
