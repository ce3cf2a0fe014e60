"""A Gantt chart: which slot ran what, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchfleet.domain.humanize import counted, duration
from benchfleet.domain.slots import host_in
from benchfleet.ledger.history import Attempt
from benchfleet.reports.wording import one_line

from .base import DATA, HIGHER, OTHERS, ROW_PX, Chart, finished

_WIDTH_PX = 760
_MAX_BARS = 2_000
_MAX_LANES = 80
_LETTER_PX = 5.6  # pixels of a letter of a bar's name
_MIN_LETTERS = 4  # of a name in a bar; a narrower bar has none
_MAX_NAMED_BARS = 400
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


def spans(ids: Mapping[str, str], attempts: Mapping[str, Sequence[Attempt]]) -> list[Span]:
    """The attempts of the cells whose ids are given by fingerprint; those that run end now."""
    now = time.time()
    return [
        Span(
            lane=_lane(attempt),
            cell=ids[fingerprint],
            attempt=attempt.attempt,
            begin=attempt.claimed_at,
            end=max(attempt.claimed_at, attempt.ended_at or now),
            state=_state(attempt),
        )
        for fingerprint, some in attempts.items()
        if fingerprint in ids
        for attempt in some
    ]


def _lane(attempt: Attempt) -> str:
    outcome = attempt.outcome
    if outcome is None or not outcome.host:
        return f"runner {attempt.runner[:8]}"
    return f"{outcome.host} {host_in(outcome.device)[1]}".strip()


def _state(attempt: Attempt) -> str:
    if attempt.outcome is None:
        return "running" if attempt.ended_at is None else "given back"
    return "success" if attempt.outcome.state == "success" else "failed"


def timeline(spans: Sequence[Span]) -> Chart | None:
    """The chart, or None without attempts. Of very many the longest are drawn."""
    import altair as alt

    if not spans:
        return None
    longest = sorted(spans, key=lambda span: span.begin - span.end)[:_MAX_BARS]
    lanes = sorted({span.lane for span in longest})[:_MAX_LANES]
    drawn = [span for span in longest if span.lane in lanes]
    begin, end = min(span.begin for span in drawn), max(span.end for span in drawn)
    px_a_second = _WIDTH_PX / max(end - begin, 1e-9)
    names = _short_names([span.cell for span in drawn])
    rows = [
        {
            "lane": one_line(span.lane),
            "begin": round(span.begin * 1000),
            "end": round(span.end * 1000),
            "middle": round((span.begin + span.end) * 500),
            "state": span.state,
            "cell": one_line(span.cell),
            "attempt": span.attempt,
            "took": duration(span.end - span.begin),
            "label": _label(names[span.cell], (span.end - span.begin) * px_a_second),
        }
        for span in sorted(drawn, key=lambda span: span.begin)
    ]
    base = alt.Chart(alt.NamedData(name=DATA)).encode(
        y=alt.Y("lane:N", title=None).scale(domain=[one_line(lane) for lane in lanes])
    )
    states = [state for state in _ENDS if any(row["state"] == state for row in rows)]
    colour = alt.Color("state:N", title=None).scale(
        domain=states, range=[_ENDS[state] for state in states]
    )
    bars = base.mark_bar(stroke="white", strokeWidth=0.4).encode(
        x=alt.X("begin:T", title=None).scale(nice=False).axis(tickCount=8, labelOverlap="greedy"),
        x2="end:T",
        color=colour,
        tooltip=[
            alt.Tooltip("cell:N"),
            alt.Tooltip("attempt:Q"),
            alt.Tooltip("lane:N", title="where"),
            alt.Tooltip("took:N"),
            alt.Tooltip("state:N"),
        ],
    )
    dark = alt.FieldOneOfPredicate(field="state", oneOf=[*_DARK_STATES])
    texts = (
        base.transform_filter("datum.label != ''")
        .mark_text(fontSize=10, tooltip=None)
        .encode(color=alt.when(dark).then(alt.value("white")).otherwise(alt.value("black")))
    )
    layers = [bars]
    if any(row["label"] for row in rows) and len(rows) <= _MAX_NAMED_BARS:
        layers.append(texts.encode(x="middle:T", text="label:N"))
    chart = alt.layer(*layers).properties(width=_WIDTH_PX, height=alt.Step(ROW_PX))
    missing = len(spans) - len(drawn)
    more = (
        f" {counted(missing, 'shorter attempt')} of {len(spans)} are not drawn." if missing else ""
    )
    return Chart(
        kind="timeline",
        title="What ran where",
        about=f"Each bar is an attempt; white is idle time.{more}",
        spec=finished(chart),
        rows=tuple(rows),
    )


def _short_names(cells: Sequence[str]) -> dict[str, str]:
    """Each cell without the leading parts that all of them share, such as the only model."""
    parts = {cell: one_line(cell).split("/") for cell in cells}
    least = min(map(len, parts.values()))
    shared = 0
    while shared < least - 1 and len({tuple(one[: shared + 1]) for one in parts.values()}) == 1:
        shared += 1
    return {cell: "/".join(one[shared:]) for cell, one in parts.items()}


def _label(name: str, width: float) -> str:
    """As much of a name as fits into a bar of so many pixels; empty if that says nothing."""
    letters = int(width / _LETTER_PX) - 1
    if len(name) <= letters:
        return name
    return f"{name[: letters - 1]}…" if letters > _MIN_LETTERS else ""
