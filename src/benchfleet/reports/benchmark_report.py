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
    """The speed of one model on one GPU of one provider: medians of its successful attempts."""

    key: Key
    attempts: int
    tokens_per_second: float
    price: float | None  # an hour
    measured_cost: float | None  # of a million output tokens


def benchmark_report(rows: Sequence[Row], *, title: str, currency: str = "USD") -> str:
    """The report as Markdown."""
    lines = [f"# Benchmark report: {markdown_text(title)}", "", *_summary(rows, currency)]
    lines += ["", "## What ran", "", *_counts(rows)]
    lines += ["", "## What failed", "", *_failures(rows)]
    speeds = _speeds(rows)
    lines += ["", "## Speed and cost", "", *_speed_table(speeds, currency)]
    if speeds:
        lines += ["", "Tokens a second (median):", "", *_chart(speeds, "tokens_per_second")]
    if any(one.measured_cost for one in speeds):
        lines += ["", f"{currency} for a million output tokens (median):", ""]
        lines += _chart(speeds, "measured_cost")
    return "\n".join(lines) + "\n"


def _key(row: Row) -> Key:
    return str(row["gpu_type"] or "?"), str(row["provider"] or "local"), str(row["model"] or "–")


def _summary(rows: Sequence[Row], currency: str) -> Iterator[str]:
    states = Counter(row["status"] for row in rows)
    parts = [f"{count} {state}" for state, count in states.most_common()]
    yield f"{len(rows)} attempts and rentals: {', '.join(parts) or 'none'}."
    cost = sum(row["total_cost"] or 0.0 for row in rows)
    wasted = sum(row["total_cost"] or 0.0 for row in rows if row["status"] != "success")
    if cost:
        yield ""
        yield (
            f"They cost {cost:.4f} {currency}; {wasted:.4f} of it ({wasted / cost:.0%}) went to "
            "attempts and rentals without success."
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
        cost = sum(row["total_cost"] or 0.0 for row in own)
        cells = [*key, str(len(own)), str(success), str(failed), f"{cost:.4f}" if cost else ""]
        yield _line(cells)


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
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        if row["status"] == "success" and row["tokens_per_second"]:
            groups.setdefault(_key(row), []).append(row)
    speeds = []
    for key, own in sorted(groups.items()):
        speeds.append(
            Speed(
                key=key,
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


def _speed_table(speeds: Sequence[Speed], currency: str) -> Iterator[str]:
    if not speeds:
        yield "No attempt measured a speed."
        return
    yield f"| GPU | provider | model | attempts | tokens/s | {currency}/h | {currency}/Mtok |"
    yield "|---|---|---|---|---|---|---|"
    for one in speeds:
        numbers = [_number(one.price), _number(one.measured_cost)]
        yield _line([*one.key, str(one.attempts), f"{one.tokens_per_second:.1f}", *numbers])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


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
