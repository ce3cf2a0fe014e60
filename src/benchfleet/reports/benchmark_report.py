"""``BENCHMARK_REPORT.md``: what ran on which hardware, what failed and why, speed and cost.

It is made of the rows of the manifest alone. Cost per million tokens is by the price of an hour and
the measured speed, and by the price of tokens; what was paid, with idle time and setup, is in the
manifest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchfleet.domain.plain_text import markdown_text
from benchfleet.reports.manifest import Row

_BAR_WIDTH = 40  # characters of the longest bar
_BARS = "▏▎▍▌▋▊▉█"
_FAILED = ("failed", "partial", "cancelled")
_MAX_MESSAGE = 160  # characters
Key = tuple[str, str, str]  # GPU, provider, model


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The speed of one model on one GPU of one provider: medians of its successful attempts that
    were paid in one currency."""

    key: Key
    currency: str  # "" where no price is known
    attempts: int
    tokens_per_second: float
    price: float | None  # an hour
    measured_cost: float | None  # of a million output tokens


def benchmark_report(rows: Sequence[Row], *, title: str) -> str:
    """The report as Markdown; each row has the ``currency`` of its cost too."""
    lines = [f"# Benchmark report: {markdown_text(title)}", "", *_summary(rows)]
    lines += ["", "## What ran", "", *_counts(rows)]
    lines += ["", "## What failed", "", *_failures(rows)]
    speeds = _speeds(rows)
    lines += ["", "## Speed and cost", "", *_speed_table(speeds)]
    if speeds:
        lines += ["", "Tokens a second (median):", "", *_chart(speeds, "tokens_per_second")]
    for currency in dict.fromkeys(one.currency for one in speeds if one.measured_cost):
        own = [one for one in speeds if one.currency == currency]
        unit = markdown_text(currency or "Cost")
        lines += ["", f"{unit} for a million output tokens (median):", ""]
        lines += _chart(own, "measured_cost")
    return "\n".join(lines) + "\n"


def _key(row: Row) -> Key:
    return str(row["gpu_type"] or "?"), str(row["provider"] or "local"), str(row["model"] or "–")


def _costs(rows: Iterable[Row]) -> dict[str, float]:
    """What rows cost together, by currency."""
    costs: dict[str, float] = {}
    for row in rows:
        if row["total_cost"]:
            currency = row["currency"] or ""
            costs[currency] = costs.get(currency, 0.0) + row["total_cost"]
    return costs


def _money(amount: str, currency: str) -> str:
    """``0.3600 EUR``; without a currency the amount alone."""
    return f"{amount} {currency}".rstrip()


def _summary(rows: Sequence[Row]) -> Iterator[str]:
    states = Counter(row["status"] for row in rows)
    parts = [f"{count} {state}" for state, count in states.most_common()]
    yield f"{len(rows)} attempts and rentals: {', '.join(parts) or 'none'}."
    wasted = _costs(row for row in rows if row["status"] != "success")
    for currency, cost in _costs(rows).items():
        paid, lost = markdown_text(_money(f"{cost:.4f}", currency)), wasted.get(currency, 0.0)
        yield ""
        yield (
            f"They cost {paid}; {lost:.4f} of it ({lost / cost:.0%}) went to attempts and rentals "
            "without success."
        )


def _counts(rows: Sequence[Row]) -> Iterator[str]:
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(_key(row), []).append(row)
    yield "| GPU | provider | model | attempts | success | failed | cost |"
    yield "|---|---|---|---|---|---|---|"
    for key, own in sorted(groups.items()):
        success = sum(row["status"] == "success" for row in own)
        failed = sum(bool(row["failure_reason"]) or row["status"] in _FAILED for row in own)
        costs = [_money(f"{cost:.4f}", currency) for currency, cost in _costs(own).items()]
        yield _line([*key, str(len(own)), str(success), str(failed), ", ".join(costs)])


def _failures(rows: Sequence[Row]) -> Iterator[str]:
    failed = [row for row in rows if row["failure_reason"]]
    if not failed:
        yield "Nothing failed."
        return
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in failed:
        key = str(row["failure_stage"] or "?"), str(row["failure_reason"])
        groups.setdefault(key, []).append(row)
    yield "| stage | reason | times | on | first message |"
    yield "|---|---|---|---|---|"
    for (stage, reason), own in sorted(groups.items(), key=lambda item: -len(item[1])):
        where = dict.fromkeys(" ".join(_key(row)[:2]) for row in own)
        message = str(own[0]["error_message"] or "")[:_MAX_MESSAGE]
        yield _line([stage, reason, str(len(own)), ", ".join(where), message])


def _speeds(rows: Sequence[Row]) -> list[Speed]:
    groups: dict[tuple[Key, str], list[Row]] = {}
    for row in rows:
        if row["status"] == "success" and row["tokens_per_second"]:
            groups.setdefault((_key(row), row["currency"] or ""), []).append(row)
    speeds = []
    for (key, currency), own in sorted(groups.items()):
        speeds.append(
            Speed(
                key=key,
                currency=currency,
                attempts=len(own),
                tokens_per_second=median(row["tokens_per_second"] for row in own),
                price=_median(own, "price_per_hour"),
                measured_cost=_median(own, "cost_per_million_tokens"),
            )
        )
    return speeds


def _median(rows: Sequence[Row], column: str) -> float | None:
    """Of the rows that have it."""
    values = [row[column] for row in rows if row[column]]
    return median(values) if values else None


def _speed_table(speeds: Sequence[Speed]) -> Iterator[str]:
    if not speeds:
        yield "No attempt measured a speed."
        return
    yield "| GPU | provider | model | attempts | tokens/s | price/h | cost/Mtok |"
    yield "|---|---|---|---|---|---|---|"
    for one in speeds:
        costs = [_price(value, one.currency) for value in (one.price, one.measured_cost)]
        cells = [*one.key, str(one.attempts), f"{one.tokens_per_second:.1f}", *costs]
        yield _line(cells)


def _price(value: float | None, currency: str) -> str:
    return "" if value is None else _money(f"{value:.3f}", currency)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"


def _chart(speeds: Sequence[Speed], name: str) -> Iterator[str]:
    """Bars of text, which every viewer of Markdown shows."""
    values: list[tuple[str, float]] = []
    for one in speeds:
        value: Any = getattr(one, name)
        if value:
            values.append((" ".join(one.key), value))
    largest = max(value for _, value in values)
    width = max(len(label) for label, _ in values)
    yield "```text"
    for label, value in sorted(values, key=lambda item: -item[1]):
        yield f"{label:<{width}}  {_bar(value / largest)} {value:.3g}"
    yield "```"


def _bar(share: float) -> str:
    eighths = max(1, round(share * _BAR_WIDTH * len(_BARS)))
    whole, rest = divmod(eighths, len(_BARS))
    return "█" * whole + (_BARS[rest - 1] if rest else "")
