"""The time line of attempts, drawn as Vega does it."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.event import Event
from benchfleet.ledger.history import Attempt
from benchfleet.reports.charts.timeline import _ENDS, Span, Spans, longest_spans, timeline
from benchfleet.testing import sample_cell
from drawn_charts import marks, svg, texts


def test_states_of_a_timeline_differ_without_colours() -> None:
    def luminance(colour: str) -> float:
        red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        return float(0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2)

    shades = [luminance(colour) for colour in _ENDS.values()]
    contrasts = [(b + 0.05) / (a + 0.05) for a, b in pairwise(shades)]
    assert min(contrasts) > 1.25


def test_a_time_line_draws_each_attempt_and_says_what_it_leaves_out() -> None:
    span = Span(lane="host gpu:0", cell="c", attempt=1, begin=0, end=1, state="success")
    spans = [replace(span, lane=f"host gpu:{n % 2}", begin=n, end=n + 1) for n in range(5)]
    chart = timeline(Spans(spans))
    assert chart is not None
    assert marks(chart, "bar") == 5
    assert {"host gpu:0", "host gpu:1"} <= set(texts(chart))
    assert "not drawn" not in chart.about
    some = timeline(Spans(spans, shorter=3))
    assert some is not None
    assert "3 shorter attempts of 8 are not drawn" in some.about
    assert timeline(Spans()) is None


def test_a_time_line_has_the_longest_attempts() -> None:
    cells = [sample_cell(number) for number in range(2_003)]
    attempts = {
        str(cell.fingerprint): [
            Attempt(
                claimed=Event(kind="claimed", at=100.0, data={"attempt": 1, "runner": "r" * 9}),
                ended=Event(kind="released", at=100.0 + number),
            )
        ]
        for number, cell in enumerate(cells)
    }
    spans = longest_spans([*cells, *cells], attempts)
    assert (len(spans.longest), spans.shorter) == (2_000, 3)
    assert spans.longest[0] == Span(
        lane="runner rrrrrrrr",
        cell=cells[-1].id,
        attempt=1,
        begin=100,
        end=2_102,
        state="given back",
    )
    assert min(span.end for span in spans.longest) == 103
    assert longest_spans(cells[:2], attempts).shorter == 0


def test_a_time_line_draws_nothing_of_what_a_result_cache_had() -> None:
    cell, outcome = sample_cell(), Outcome(state="success", taken_from="file:///cache")
    taken = Attempt(
        claimed=Event(kind="claimed", at=100.0, data={"attempt": 1, "runner": "r" * 9}),
        ended=Event(kind="finished", at=101.0, data={"outcome": outcome.to_dict()}),
    )
    spans = longest_spans([cell], {str(cell.fingerprint): [taken]})
    assert (list(spans.longest), spans.shorter) == ([], 0)


def test_a_bar_of_the_time_line_is_named_where_the_name_fits() -> None:
    long = Span(lane="a", cell="m/dense/recall_512", attempt=1, begin=0, end=90, state="success")
    short = replace(long, cell="m/top_k/recall_512", begin=90, end=95)
    middle = replace(long, cell="m/sink/recall_512", begin=95, end=103, lane="b")
    chart = timeline(Spans([long, short, middle]))
    assert chart is not None
    first, second, third = (text for text in texts(chart) if "/" in text or "…" in text)
    assert first == "dense/recall_512"  # without the only model
    assert re.fullmatch("top.{0,3}…", second)
    assert re.fullmatch("sink/r.{0,5}…", third)


def test_a_name_is_in_the_part_of_a_bar_that_no_later_one_hides() -> None:
    first = Span(lane="a", cell="m/dense/recall", attempt=1, begin=0, end=60, state="success")
    later = replace(first, cell="m/top_k/recall", begin=20, end=100)
    beside = replace(first, cell="m/sink/recall", begin=5, end=60, lane="b")
    chart = timeline(Spans([later, first, beside]))
    assert chart is not None
    middles = {row["label"]: (row["middle"], row["room"]) for row in chart.rows}
    assert middles == {
        "dense/recall": (10_000, 146),  # 20 of 100 s on 760 pixels, less a margin
        "top_k/recall": (60_000, 602),
        "sink/recall": (32_500, 412),
    }
    hidden = timeline(Spans([first, replace(later, begin=3)]))
    assert hidden is not None
    assert [row["label"] for row in hidden.rows] == ["", "top_k/recall"]


def test_wide_letters_stay_in_their_bar() -> None:
    first = Span(lane="a", cell="M" * 40, attempt=1, begin=0, end=5, state="success")
    chart = timeline(Spans([first, replace(first, cell="b", begin=5, end=100)]))
    assert chart is not None
    assert [text for text in texts(chart) if "M" in text] == ["MM…"]


@pytest.mark.parametrize(
    ("seconds", "shape"),
    [
        (0.004, r"\d\d:\d\d:\d\d\.\d{3}"),
        (0.8, r"\d\d:\d\d:\d\d\.\d00"),
        (7, r"\d\d:\d\d:\d\d"),
        (40, r"\d\d:\d\d:\d[05]"),
        (500, r"\d\d:\d\d:00"),
        (3_000, r"\d\d:\d[05]"),
        (100_000, r"\d\d:00"),
        (4 * 86_400, "(00|12):00"),
        (20 * 86_400, r"\d\d (Feb|Mar)"),
        (300 * 86_400, r"01 \w\w\w"),
    ],
)
def test_ticks_of_a_time_line_are_whole_times(seconds: float, shape: str) -> None:
    begin = 1_770_508_800.5012  # in February 2026
    span = Span(lane="a", cell="c", attempt=1, begin=begin, end=begin + seconds, state="success")
    chart = timeline(Spans([span]))
    assert chart is not None
    lines = re.findall(r"<tspan[^>]*>([^<]*)</tspan>", svg(chart))
    times = [line for line in lines if "2026" not in line]
    assert 4 <= len(times) <= 16
    assert all(re.fullmatch(shape, time) for time in times)
    assert re.fullmatch(r"(\d\d \w\w\w )?2026", lines[1])  # beneath the first
    assert len(lines) - len(times) <= 5  # and beneath those of midnight
