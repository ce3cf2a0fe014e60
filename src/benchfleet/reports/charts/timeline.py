"""A Gantt chart: which slot ran what, and how it ended."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted, duration
from benchfleet.domain.slots import host_in
from benchfleet.ledger.history import Attempt
from benchfleet.reports.labels import MAX_LABEL_PX, isolated, shortened

from .base import DATA, HIGHER, OTHERS, ROW_PX, Chart, finished

_WIDTH_PX = 760
_MAX_BARS = 2_000
_MAX_LANES = 80
_MIN_NAME_PX = 30  # pixels of a name in a bar; a narrower bar has none
_NAME_PADDING_PX = 6  # pixels of a bar that its name leaves empty
_MAX_NAMED_BARS = 400
_TICKS = 8  # about so many
_SECOND, _MINUTE, _DAY = 1000, 60_000, 86_400_000  # milliseconds
# Dark to light, so that they differ without colours too.
_ENDS = {"success": HIGHER, "running": "#009e73", "given back": OTHERS, "failed": "#fec876"}
_DARK_STATES = ("success", "running")  # white text is legible on these


@dataclass(frozen=True, kw_only=True)
class Span:
    """One attempt: where it ran, from when to when."""

    lane: str  # the host and device, or the runner where neither is known
    cell: str
    attempt: int
    begin: float  # seconds since the epoch
    end: float
    state: str  # success, failed, given back or running


@dataclass(frozen=True)
class Spans:
    """The longest attempts of a campaign."""

    longest: Sequence[Span] = ()
    shorter: int = 0  # attempts that are left out


def longest_spans(cells: Sequence[Cell], attempts: Mapping[str, Sequence[Attempt]]) -> Spans:
    """As many attempts of these cells as a time line draws; `attempts` are by fingerprint."""
    now = time.time()
    cell_of = {cell.fingerprint: cell for cell in cells}
    every = [(cell, one) for name, cell in cell_of.items() for one in attempts.get(name, ())]
    longest = heapq.nlargest(
        _MAX_BARS, every, key=lambda pair: _end(pair[1], now) - pair[1].claimed_at
    )
    some = [
        span_of(str(cell.id), attempt, now) for cell, attempt in longest if not attempt.was_taken
    ]
    return Spans(some, len(every) - len(longest))


def span_of(cell: str, attempt: Attempt, now: float) -> Span:
    """An attempt of the cell with this id; one that runs ends now."""
    return Span(
        lane=_lane(attempt),
        cell=cell,
        attempt=attempt.attempt,
        begin=attempt.claimed_at,
        end=_end(attempt, now),
        state=_state(attempt),
    )


def _end(attempt: Attempt, now: float) -> float:
    return max(attempt.claimed_at, attempt.ended_at or now)


def _lane(attempt: Attempt) -> str:
    outcome = attempt.outcome
    if outcome is None or not outcome.host:
        return f"runner {attempt.runner[:8]}"
    return f"{outcome.host} {host_in(outcome.device)[1]}".strip()


def _state(attempt: Attempt) -> str:
    if attempt.outcome is None:
        return "running" if attempt.ended_at is None else "given back"
    return "success" if attempt.outcome.state == "success" else "failed"


def timeline(spans: Spans) -> Chart | None:
    """The chart, or None without attempts."""
    import altair as alt

    if not spans.longest:
        return None
    lanes = sorted({span.lane for span in spans.longest})[:_MAX_LANES]
    drawn = [span for span in spans.longest if span.lane in lanes]
    begin, end = min(span.begin for span in drawn), max(span.end for span in drawn)
    rows = _rows(drawn, lanes, _WIDTH_PX / max(end - begin, 1e-9))
    times = _times(round(begin * 1000), round(end * 1000))
    base = alt.Chart(alt.NamedData(name=DATA)).encode(
        y=alt.Y("lane:N", title=None).scale(domain=[*dict.fromkeys(_lane_labels(lanes).values())])
    )
    states = [state for state in _ENDS if any(row["state"] == state for row in rows)]
    colour = alt.Color("state:N", title=None).scale(
        domain=states, range=[_ENDS[state] for state in states]
    )
    bars = base.mark_bar(stroke="white", strokeWidth=0.4).encode(
        x=alt.X("begin", title=None, **times),
        x2="end",
        color=colour,
        tooltip=[
            alt.Tooltip("cell:N"),
            alt.Tooltip("attempt:Q"),
            alt.Tooltip("where:N"),
            alt.Tooltip("took:N"),
            alt.Tooltip("state:N"),
        ],
    )
    dark = alt.FieldOneOfPredicate(field="state", oneOf=[*_DARK_STATES])
    texts = (
        base.transform_filter("datum.label != ''")
        .mark_text(fontSize=10, tooltip=None, limit=alt.ExprRef("datum.room"))
        .encode(color=alt.when(dark).then(alt.value("white")).otherwise(alt.value("black")))
    )
    layers = [bars]
    if any(row["label"] for row in rows):
        layers.append(texts.encode(x=alt.X("middle", type=times["type"]), text="label:N"))
    chart = alt.layer(*layers).properties(width=_WIDTH_PX, height=alt.Step(ROW_PX))
    every = len(spans.longest) + spans.shorter
    missing = every - len(drawn)
    more = f" {counted(missing, 'shorter attempt')} of {every} are not drawn." if missing else ""
    return Chart(
        kind="timeline",
        title="What ran where",
        about=f"Each bar is an attempt; white is idle time.{more}",
        spec=finished(chart),
        rows=tuple(rows),
    )


def _rows(spans: Sequence[Span], lanes: Sequence[str], px_a_second: float) -> list[dict[str, Any]]:
    """A row for each bar, the earliest first. A later bar lies on an earlier one of its lane, and
    a name is in the part of its bar that is seen."""
    names = _short_names([span.cell for span in spans])
    labels = _lane_labels(lanes)
    least_px = _MIN_NAME_PX if len(spans) <= _MAX_NAMED_BARS else math.inf
    rows = []
    hidden_from: dict[str, float] = {}  # when the next bar of a lane begins
    for span in sorted(spans, key=lambda span: span.begin, reverse=True):
        end = min(span.end, hidden_from.get(span.lane, math.inf))
        hidden_from[span.lane] = span.begin
        room = (end - span.begin) * px_a_second - _NAME_PADDING_PX
        rows.append(
            {
                "lane": labels[span.lane],
                "where": isolated(span.lane),
                "begin": round(span.begin * 1000, 1),
                "end": round(span.end * 1000, 1),
                "middle": round((span.begin + end) * 500, 1),
                "state": span.state,
                "cell": isolated(span.cell),
                "attempt": span.attempt,
                "took": duration(span.end - span.begin),
                "label": names[span.cell] if room >= least_px else "",
                "room": round(room),
            }
        )
    return rows[::-1]


def _lane_labels(lanes: Sequence[str]) -> dict[str, str]:
    short = shortened(map(isolated, lanes), MAX_LABEL_PX)
    return {lane: short[isolated(lane)] for lane in lanes}


def _times(begin: int, end: int) -> dict[str, Any]:
    """The scale and the axis for times from `begin` to `end`, in milliseconds since the epoch.

    Vega draws at most one tick a second on a scale of times, so a short run has one of numbers.
    """
    import altair as alt

    scale = alt.Scale(nice=False, zero=False)
    step = _decimal_step((end - begin) / _TICKS)
    if step <= _SECOND:
        first = -(-begin // step) * step
        axis = {"values": [*range(first, end + 1, step)]}
        label = _tick_label("%H:%M:%S.%L" if step < _SECOND else "%H:%M:%S")
        return {"type": "quantitative", "scale": scale, "axis": alt.Axis(**axis, **label)}
    if end - begin < 10 * _MINUTE:
        label = _tick_label("%H:%M:%S")
    elif end - begin < 8 * _DAY:
        label = _tick_label("%H:%M")
    else:
        label = _tick_label("%d %b", below="%Y", where=("%d %m", "01 01"))
    return {"type": "temporal", "scale": scale, "axis": alt.Axis(tickCount=_TICKS, **label)}


def _tick_label(
    text: str,
    below: str = "%d %b %Y",
    where: tuple[str, str] = ("%H:%M:%S.%L", "00:00:00.000"),
) -> dict[str, str]:
    """What a tick says, as formats of d3; `below` is beneath the first tick, and beneath those
    that begin a day, or whatever else `where` says by a format and its text."""
    begins = f"datum.index === 0 || timeFormat(datum.value, '{where[0]}') === '{where[1]}'"
    beneath = f"{begins} ? timeFormat(datum.value, '{below}') : ''"
    return {
        "labelExpr": f"[timeFormat(datum.value, '{text}'), {beneath}]",
        "labelOverlap": "greedy",
    }


def _decimal_step(least: float) -> int:
    """The least of 1, 2, 5, 10, 20, … that is no smaller."""
    power = 1
    while True:
        for step in (power, 2 * power, 5 * power):
            if step >= least:
                return step
        power *= 10


def _short_names(cells: Sequence[str]) -> dict[str, str]:
    """Each cell without the leading parts that all of them share, such as the only model."""
    parts = {cell: cell.split("/") for cell in cells}
    least = min(map(len, parts.values()))
    shared = 0
    while shared < least - 1 and len({tuple(one[: shared + 1]) for one in parts.values()}) == 1:
        shared += 1
    return {cell: isolated("/".join(one[shared:])) for cell, one in parts.items()}
