"""What a million output tokens cost on a machine that is paid by the hour."""

from __future__ import annotations

_MILLION, _HOUR_S = 1e6, 3600.0


def cost_per_million(price_per_hour: float, tokens_per_second: float) -> float | None:
    """Price per second ÷ tokens per second × 10⁶; None without tokens."""
    if tokens_per_second <= 0:
        return None
    return price_per_hour / _HOUR_S / tokens_per_second * _MILLION


def billed_cost_per_million(bill: float, tokens: int) -> float | None:
    """The whole bill, with loading and warm-up, for a million of the tokens that came of it."""
    return bill / tokens * _MILLION if tokens > 0 else None
