"""What an attempt used up: time, GPUs, energy, money."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

_MAX_CURRENCY_LETTERS = 8  # of a currency


@dataclass(frozen=True, kw_only=True)
class Price:
    """What an hour costs, of a whole machine or of each of its GPUs."""

    amount: float
    currency: str = ""  # as its user wrote it, such as EUR or $
    per_gpu: bool = False


@dataclass(frozen=True, kw_only=True)
class Rate:
    """What a slot holds of its machine, and what an hour of that costs."""

    gpus: float = 0.0  # a half where two slots share one
    cost: float | None = None  # an hour; None: no price is known
    currency: str = ""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one attempt used up, whatever came of it."""

    seconds: float  # that its slot was its own
    gpus: float = 0.0  # meanwhile; a half where two slots share one
    joules: float | None = None  # its part of its GPUs' energy; None: not known
    cost: float | None = None  # of the machine and of tokens; None: no price is known
    currency: str = ""
    token_cost: float = 0.0  # the part of the cost that paid for tokens
    tokens: int = 0  # of answers, if tokens have a price
    ram: int = 0  # bytes at most, as the next; 0: unknown
    gpu_memory: int = 0

    @classmethod
    def at(cls, rate: Rate, seconds: float, **measured: Any) -> Usage:
        """The use of a slot at this rate."""
        cost = None if rate.cost is None else rate.cost * seconds / 3600
        return cls(seconds=seconds, gpus=rate.gpus, cost=cost, currency=rate.currency, **measured)

    def with_tokens(self, tokens: int, cost: float, currency: str) -> Usage:
        """The use with its answers' tokens, and the cost of all tokens. A price of the machine in
        another currency is left out: one use has one currency."""
        own = self.cost if self.currency == currency else None
        total = (own or 0.0) + cost
        return replace(self, cost=total, currency=currency, token_cost=cost, tokens=tokens)

    @property
    def machine_cost(self) -> float:
        """The part of the cost that paid for the machine; 0 if it has no price."""
        return max(0.0, (self.cost or 0.0) - self.token_cost)

    @property
    def price_per_hour(self) -> float | None:
        """The price of an hour of its part of the machine; None without one."""
        cost = self.machine_cost
        return cost / self.seconds * 3600 if cost and self.seconds else None

    @property
    def token_cost_per_million(self) -> float | None:
        """What tokens cost for a million tokens of answers; None without a price or answers."""
        return self.token_cost / self.tokens * 1e6 if self.tokens else None

    def to_dict(self) -> dict[str, Any]:
        """JSON values only; what is not known is left out."""
        fields = ((name, getattr(self, name)) for name in self.__dataclass_fields__)
        return {name: value for name, value in fields if value not in (None, "", 0)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Usage:
        """What an event or a result says, whichever version wrote it; what is not a number, or no
        name of a currency, is not known."""
        fields = cls.__dataclass_fields__
        known_fields = {n: one for n, one in value.items() if n in fields and _is_valid(n, one)}
        return (
            cls(**known_fields) if "seconds" in known_fields else cls(seconds=0.0, **known_fields)
        )


def _is_valid(name: str, value: Any) -> bool:
    if name == "currency":
        return (
            isinstance(value, str) and value.isprintable() and len(value) <= _MAX_CURRENCY_LETTERS
        )
    return type(value) in (int, float) and 0 <= value < math.inf


@dataclass(kw_only=True)
class UsageTotal:
    """What several attempts used up together."""

    attempts: int = 0
    seconds: float = 0.0
    gpu_seconds: float = 0.0
    metered: float = 0.0  # of these, the GPU-seconds whose energy is known
    joules: float = 0.0
    costs: dict[str, float] | None = None  # by currency
    unpriced: int = 0  # attempts whose price is not known
    unrecorded: int = 0  # attempts of which nothing is known, as their runner died

    def add(self, used: Usage | None) -> None:
        """Count an attempt; None where what it used is not known."""
        self.attempts += 1
        if used is None:
            self.unrecorded += 1
            return
        self.seconds += used.seconds
        self.gpu_seconds += used.seconds * used.gpus
        if used.joules is not None:
            self.metered += used.seconds * used.gpus
            self.joules += used.joules
        if used.cost is None:
            self.unpriced += used.seconds > 0  # scoring again what was answered takes nothing
        else:
            self._pay(used.currency, used.cost)

    def take(self, other: UsageTotal) -> None:
        """Count all that the other one counted."""
        self.attempts += other.attempts
        self.seconds += other.seconds
        self.gpu_seconds += other.gpu_seconds
        self.metered += other.metered
        self.joules += other.joules
        self.unpriced += other.unpriced
        self.unrecorded += other.unrecorded
        for currency, cost in (other.costs or {}).items():
            self._pay(currency, cost)

    def _pay(self, currency: str, cost: float) -> None:
        self.costs = self.costs or {}
        self.costs[currency] = self.costs.get(currency, 0.0) + cost

    def to_dict(self) -> dict[str, Any]:
        """JSON values only; energy and money where some are known."""
        totals: dict[str, Any] = {
            "attempts": self.attempts,
            "slot_hours": self.seconds / 3600,
            "gpu_hours": self.gpu_seconds / 3600,
        }
        if self.metered:
            totals["energy_joules"] = self.joules
            totals["energy_covers"] = min(1.0, self.metered / self.gpu_seconds)
        if self.costs:
            totals["cost"] = dict(self.costs)
            totals["attempts_without_price"] = self.unpriced
        if self.unrecorded:
            totals["attempts_unrecorded"] = self.unrecorded
        return totals
