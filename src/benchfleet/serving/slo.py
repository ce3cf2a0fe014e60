"""A service level objective: the latencies that a good request keeps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchfleet.serving.request import Request

DEFAULT_SHARE = 0.95  # of requests that keep it
MAX_ERROR_SHARE = 0.01
_NS = 1e9
_Z95 = 1.959964


@dataclass(frozen=True, kw_only=True)
class Slo:
    """Limits in seconds; None: no limit. A failed request is never good. A request of one token
    has no TPOT, and is judged by the others."""

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None
    share: float = DEFAULT_SHARE

    def keeps(self, request: Request) -> bool:
        """Whether a request is good. Latencies count from when it was scheduled."""
        if not request.ok:
            return False
        measured = (
            (self.ttft, request.ttft_scheduled),
            (self.tpot, request.tpot),
            (self.e2e, request.e2e_scheduled),
        )
        for limit, value in measured:
            if limit is not None and value is not None and value > limit * _NS:
                return False
        return self.ttft is None or request.first is not None

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        limits = {"ttft": self.ttft, "tpot": self.tpot, "e2e": self.e2e}
        return {**{k: v for k, v in limits.items() if v is not None}, "share": self.share}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Slo:
        """What `to_dict` made."""
        return cls(**value)


def wilson(good: int, count: int) -> tuple[float, float]:
    """The Wilson 95 % interval of a share."""
    if not count:
        return 0.0, 1.0
    share, square = good / count, _Z95**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = _Z95 * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    half /= 1 + square / count
    return max(0.0, middle - half), min(1.0, middle + half)


def count_good(requests: Iterable[Request], slo: Slo) -> int:
    """How many keep the objective."""
    return sum(map(slo.keeps, requests))
