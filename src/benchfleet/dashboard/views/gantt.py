"""What ran where and when, as bars; and the part of the time that is shown."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from benchfleet.dashboard.rows import cell_id
from benchfleet.domain.humanize import duration
from benchfleet.domain.part import SPLIT
from benchfleet.ledger.history import ATTEMPT_EVENTS, attempts_by_cell
from benchfleet.reports.charts.timeline import Span, span_of
from benchfleet.study import Study

MAX_GANTT_EVENTS = 40_000
MAX_GANTT_BARS = 2_000
MAX_LANES = 100
MAX_LISTED = 100  # of the newest attempts
MAX_ZOOM = 4096
_WIDTH, _LANE_HEIGHT, _LABEL_WIDTH = 1_200, 20, 150


@dataclass(frozen=True, kw_only=True)
class Window:
    """The part of the whole time that is shown."""

    zoom: int = 1  # how many times it fits into the whole
    at: float = 1.0  # its middle, as a share of the whole

    def of(self, begin: float, end: float) -> tuple[float, float]:
        """Its begin and end."""
        length = max(end - begin, 1.0) / self.zoom
        first = begin + self.at * (end - begin) - length / 2
        first = max(begin, min(first, max(begin, end - length)))
        return first, first + length

    def closer(self) -> Window:
        return replace(self, zoom=min(MAX_ZOOM, 2 * self.zoom))

    def farther(self) -> Window:
        return replace(self, zoom=max(1, self.zoom // 2))

    def moved(self, by: float) -> Window:
        """By so many of its lengths."""
        half = 0.5 / self.zoom
        at = min(max(self.at, half), 1.0 - half) + by / self.zoom
        return replace(self, at=round(min(max(at, half), 1.0 - half), 6))

    @property
    def query(self) -> dict[str, float]:
        """As addresses have it."""
        return {"zoom": self.zoom, "at": self.at} if self.zoom > 1 else {}


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One attempt in the chart of what ran where, in units of the drawing."""

    x: float
    y: float
    width: float
    state: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Gantt:
    """What ran where."""

    lanes: Sequence[str]
    bars: Sequence[Bar]
    left_out: int
    begin: float  # seconds since the epoch
    end: float
    width: int = _WIDTH
    label_width: int = _LABEL_WIDTH
    lane_height: int = _LANE_HEIGHT
    lanes_left_out: int = 0
    newest: Sequence[tuple[Span, str]] = ()  # for the table, each with the id of its cell
    total: int = 0  # attempts that were read

    @property
    def height(self) -> int:
        return self.lane_height * len(self.lanes) + 24


def gantt(
    study: Study, paths: Mapping[str, str], running: Mapping[str, str], window: Window
) -> Gantt | None:
    """The attempts of the newest events; None without any. `paths` are by fingerprint; `running`
    has the lanes of those that run, by fingerprint."""
    ledger = study.open_existing_ledger()
    if ledger is None:
        return None
    with closing(ledger):
        since = max(0, ledger.last_event() - MAX_GANTT_EVENTS)
        attempts = attempts_by_cell(ledger.events(since, kinds=ATTEMPT_EVENTS))
        of_parts = {
            part: (
                f"{paths[event.fingerprint]}, part {number} of {len(event.data['parts'])}",
                cell_id(event.fingerprint),
            )
            for event in ledger.events(kinds={SPLIT})
            if event.fingerprint in paths
            for number, part in enumerate(event.data["parts"], 1)
        }
    now, names = time.time(), {name: (path, cell_id(name)) for name, path in paths.items()}
    names.update(of_parts)
    listed = [
        (
            replace(span, lane=running.get(name, span.lane)) if span.state == "running" else span,
            names[name][1],
        )
        for name, some in attempts.items()
        if name in names
        for span in (span_of(names[name][0], one, now) for one in some if not one.was_taken)
    ]
    if not listed:
        return None
    every = [span for span, _ in listed]
    every_lane = sorted({span.lane for span in every})
    lanes = every_lane[:MAX_LANES]
    begin, end = window.of(min(span.begin for span in every), max(span.end for span in every))
    inside = [
        span for span in every if span.end >= begin and span.begin <= end and span.lane in lanes
    ]
    drawn = sorted(inside, key=lambda span: span.begin - span.end)[:MAX_GANTT_BARS]
    scale = (_WIDTH - _LABEL_WIDTH) / max(end - begin, 1.0)
    bars = [
        Bar(
            x=round(_LABEL_WIDTH + (max(begin, span.begin) - begin) * scale, 1),
            y=lanes.index(span.lane) * _LANE_HEIGHT + 3,
            width=round(max(1.0, (min(end, span.end) - max(begin, span.begin)) * scale), 1),
            state={"given back": "released"}.get(span.state, span.state),
            title=_title(span),
        )
        for span in drawn
    ]
    return Gantt(
        lanes=lanes,
        bars=bars,
        left_out=len(inside) - len(drawn),
        begin=begin,
        end=end,
        lanes_left_out=len(every_lane) - len(lanes),
        newest=sorted(listed, key=lambda one: -one[0].begin)[:MAX_LISTED],
        total=len(listed),
    )


def _title(span: Span) -> str:
    took = duration(span.end - span.begin)
    return f"{span.cell}, attempt {span.attempt}, {span.state}, {took}"
