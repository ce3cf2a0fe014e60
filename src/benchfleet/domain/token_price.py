"""The price of tokens of a served model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .units import money

_MILLION = 1e6


@dataclass(frozen=True, kw_only=True)
class TokenPrice:
    """What a million tokens cost."""

    prompt: float = 0.0
    completion: float = 0.0
    currency: str = ""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> TokenPrice | None:
        """The price in a model's kwargs, ``{in: 0.15 USD, out: 0.60 USD}``; None without one or
        with one that is invalid, which another version may have written."""
        written = settings.get("price")
        if not isinstance(written, Mapping):
            return None
        try:
            prices = {name: money(written[name]) for name in ("in", "out") if written.get(name)}
        except ValueError:
            return None
        currencies = {currency for _, currency in prices.values()}
        if len(currencies) != 1:
            return None
        amounts = {name: amount for name, (amount, _) in prices.items()}
        return cls(
            prompt=amounts.get("in", 0.0),
            completion=amounts.get("out", 0.0),
            currency=currencies.pop(),
        )

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """What so many tokens cost."""
        total = self.prompt * prompt_tokens + self.completion * completion_tokens
        return total / _MILLION
