"""Units as people write them: ``22GB``, ``1h30m``, ``10%``."""

from __future__ import annotations

import re
from typing import Any

from benchfleet.domain.usage import Price

_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
# Patterns that JSON Schema can take too, so without flags.
SIZE_PATTERN = rf"({_NUMBER}) ?([kmgtKMGT]?[iI]?)[bB]"
TIME_PATTERN = "".join(rf"(?:({_NUMBER}) ?{unit})? ?" for unit in "dhm") + rf"(?:({_NUMBER}) ?s)?"
_SIZE = re.compile(SIZE_PATTERN)
_POWERS = {letter: power for power, letter in enumerate("kmgt", start=1)}
_TIME = re.compile(TIME_PATTERN)
_SECONDS = (86_400, 3_600, 60, 1)
_CURRENCY = r"[$€£¥]|[A-Za-z]{3}"
PRICE_PATTERN = (
    rf"(?:({_CURRENCY}) ?)?({_NUMBER})(?: ?({_CURRENCY}))?(?: ?/ ?([gG][pP][uU]))? ?/ ?h"
)
_PRICE = re.compile(PRICE_PATTERN)
MONEY_PATTERN = rf"({_CURRENCY})? ?({_NUMBER}) ?({_CURRENCY})?"
_MONEY = re.compile(MONEY_PATTERN)
_PERCENT = re.compile(rf"({_NUMBER}) ?%")


def size(value: Any) -> int:
    """Bytes of ``22GB`` (decimal) or ``22GiB`` (binary). Raises ValueError."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match and match[2].lower() != "i":
        prefix = match[2].lower()
        step = 1024 if prefix.endswith("i") else 1000
        size_bytes: int = round(float(match[1]) * step ** _POWERS.get(prefix[:1], 0))
        if 0 < size_bytes < 2**63:
            return size_bytes
    raise ValueError(f"{value!r} is not a size; write {_leading(value, '22')}GB")


def duration(value: Any) -> float:
    """Seconds of ``6h``, ``10m``, ``90s`` or ``1h30m``. Raises ValueError."""
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match:
        seconds = sum(
            float(part) * unit for part, unit in zip(match.groups(), _SECONDS, strict=True) if part
        )
        if seconds > 0:
            return seconds
    number = _leading(value, "6")
    raise ValueError(f"{value!r} is not a time; write {number}h, {number}m or {number}s")


def price(value: Any) -> Price:
    """What an hour costs: ``$0.39/h``, ``1.20 EUR/gpu/h`` or a number. Raises ValueError."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 10**9:
        return Price(amount=float(value))
    match = _PRICE.fullmatch(value) if isinstance(value, str) else None
    if match and not (match[1] and match[3]):
        currency = match[1] or match[3] or ""
        if currency.lower() != "gpu":
            return Price(amount=float(match[2]), currency=currency, per_gpu=bool(match[4]))
    number = _leading(value, "0.39")
    raise ValueError(
        f"{value!r} is not a price; write {number} EUR/h for the machine, or {number} EUR/gpu/h"
    )


def money(value: Any) -> tuple[float, str]:
    """Amount and currency of ``20 USD`` or ``$0.15``. Raises ValueError."""
    match = _MONEY.fullmatch(value) if isinstance(value, str) else None
    if match and bool(match[1]) != bool(match[3]):
        return float(match[2]), match[1] or match[3]
    raise ValueError(f"{value!r} is not an amount of money; write {_leading(value, '20')} USD")


def share(value: Any) -> float:
    """A share such as ``2%`` or 0.02. Raises ValueError, saying what to write."""
    number = with_fractions(value)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 1:
        raise ValueError(
            f"{value!r} is not a share; write {_percentage(value)}%, or a number from 0 to 1"
        )
    return float(number)


def _percentage(value: Any) -> str:
    """The number that `value` begins with, if it can be a percentage."""
    number = _leading(value, "2")
    return number if 1 <= float(number) <= 100 else "2"


def with_fractions(value: Any) -> Any:
    """The same value with each ``10%`` in it as 0.1."""
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value)):
        return float(f"{match[1]}e-2")  # read, not divided: 0.7% is 0.007
    if isinstance(value, list):
        return [with_fractions(item) for item in value]
    if isinstance(value, dict):
        return {key: with_fractions(item) for key, item in value.items()}
    return value


def _leading(value: Any, otherwise: str) -> str:
    """The number that `value` begins with: most often only its unit is wrong."""
    match = re.match(_NUMBER, str(value))
    return match[0] if match and float(match[0]) > 0 else otherwise
