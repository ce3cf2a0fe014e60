"""Serving results in reports."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from benchfleet.reports.serving import HEADS, LEGEND, ServingPoint, legend
from benchfleet.reports.serving_charts import Chart, charts

LATENCY = {"p50": 10.0, "p90": 12.0, "p95": 13.0, "p99": 20.0, "flagged": ["p99"]}
METRICS = {
    "level": 8,
    "closed": True,
    "load": "concurrency 8",
    "requests_per_second": 4.0,
    "output_tokens_per_second": 1000.0,
    "total_tokens": 2_000_000,
    "window_seconds": 60.0,
    "window_requests": 700,
    "ttft_ms": LATENCY,
    "tpot_ms": LATENCY,
    "e2e_ms": LATENCY,
    "ttft_scheduled_ms": {**LATENCY, "p50": 99.0},
    "errors": {"http_503": 2},
    "curves": {"ttft_ms": [1.0, 2.0, 3.0], "tpot_ms": [1.0], "e2e_ms": []},
    "server": [{"at": 0.0, "kv_cache": 0.5, "running": 8.0}],
}


def point(**metrics: object) -> ServingPoint:
    return ServingPoint(
        model="m",
        config="c",
        label="c8: concurrency 8",
        state="success",
        metrics={**METRICS, **metrics},
        price_per_hour=3.6,
        bill=4.0,
        billed_seconds=75.0,
        currency="USD",
    )


def row(one: ServingPoint) -> dict[str, str]:
    return dict(zip(HEADS, one.cells(), strict=True))


def test_a_row_says_what_was_measured() -> None:
    cells = row(point())
    assert cells["requests"] == "700"
    assert cells["TTFT p50 / p99 ms"] == "10.0 / 20.0≈"
    assert cells["errors"] == "2 http_503"
    assert cells["per Mtok"] == "1.00 / 2.00 USD (60 / 75 s)"  # steady window, then the whole bill
    assert point().to_dict()["cost_per_million"] == {
        "measured": pytest.approx(1.0),
        "measured_seconds": 60.0,
        "billed": 2.0,
        "billed_seconds": 75.0,
        "currency": "USD",
    }
    assert cells["server"] == "–"
    measured = {"load_seconds": 12.34, "server_ram": 1.5e9, "watts": 310.0, "power_valid": True}
    assert row(point(**measured))["server"] == "12.3 s, 1.5 GB RAM, 310 W"
    assert row(point(**measured | {"power_valid": False}))["server"].endswith("(310 W)")
    assert cells["remarks"] == ""


def test_latencies_of_a_client_at_its_limit_are_in_parentheses_with_the_reason() -> None:
    cells = row(point(client_bound=["it used over 0.75 of a core in 9 of 10 seconds"]))
    assert cells["TTFT p50 / p99 ms"] == "(10.0 / 20.0≈)"
    assert "0.75 of a core" in cells["remarks"]


def test_the_limit_of_the_load_client_is_cited_and_held_against_what_it_read() -> None:
    limit = {"host": "lab1", "streams": 8, "chunks_per_second": 40_000.0}
    slow, quick = (
        point(client_limit=limit, chunks_per_second=rate) for rate in (1_000.0, 30_000.0)
    )
    assert row(slow)["remarks"] == ""
    assert row(quick)["remarks"] == "the load client read 75% of the chunks that it can"
    assert quick.to_dict()["client_share"] == 0.75
    far = point(round_trip_ms=23.4)
    assert row(far)["remarks"] == "the server is 23.4 ms away (round trip)"
    assert row(point(round_trip_ms=0.1))["remarks"] == ""
    assert legend([slow, quick]) == (
        f"{LEGEND} The load client on lab1 can read 40,000 chunks/s at 8 streams; these points had "
        "at most 30,000."
    )
    assert legend([point()]) == LEGEND


@pytest.mark.parametrize(("count", "remark"), [(29, "fewer than 30 requests"), (30, "")])
def test_a_point_of_few_requests_has_a_remark(count: int, remark: str) -> None:
    cells = row(point(window_requests=count))
    assert (cells["requests"], cells["remarks"]) == (str(count), remark)


def test_an_open_loop_counts_from_when_requests_were_scheduled() -> None:
    assert row(point(closed=False))["TTFT p50 / p99 ms"].startswith("99.0")


def test_a_cell_that_ended_early_has_its_checkpoint() -> None:
    partial = ServingPoint(
        model="m",
        config="c",
        label="c8",
        state="partial",
        metrics={"tokens_per_second": 12.5, "error_count": 3, "total_requests": 40},
    )
    cells = row(partial)
    assert (cells["output tok/s"], cells["errors"], cells["remarks"]) == ("12.5", "3", "partial")


def test_charts_are_svg_that_needs_no_script() -> None:
    drawn = {one.title: one.svg for one in charts([point(), point(requests_per_second=8.0)])}
    assert list(drawn) == [
        "Latency against rate",
        "Throughput against latency",
        "Cumulative TTFT",
        "Cumulative TPOT",
    ]
    assert all(text.startswith("<svg") and "<script" not in text for text in drawn.values())
    assert re.search("KV cache", drawn["Latency against rate"])
    assert list(charts([])) == []


def named_points(configs: int) -> list[ServingPoint]:
    """A point of each config, with a rate and a speed of its own."""
    return [
        replace(
            point(requests_per_second=1.0 + number, output_tokens_per_second=100.0 * number),
            config=f"c{number}",
        )
        for number in range(configs)
    ]


def drawn_texts(one: Chart) -> list[str]:
    return re.findall(r"<text [^>]*>([^<]*)</text>", one.svg)


def test_of_twelve_configs_eight_have_a_colour_and_a_shape_and_the_others_are_grey() -> None:
    latency, throughput, *_ = charts(named_points(12))
    for one in (latency, throughput):
        legend_names = [text for text in drawn_texts(one) if "loop" in text or text == "others"]
        assert len(legend_names) == 9
        assert "others" in legend_names
    assert "c11" not in "".join(drawn_texts(latency))


def test_labels_of_points_that_are_close_are_drawn_once() -> None:
    near = [point(), replace(point(), config="d"), point(output_tokens_per_second=100.0)]
    _, throughput, *_ = charts(near)
    assert drawn_texts(throughput).count("8") == 2


def test_cumulative_curves_differ_without_colours_and_their_number_is_in_the_title() -> None:
    *_, ttft, tpot = charts(named_points(9))
    assert ttft.title == "Cumulative TTFT, 8 of 9 points"
    assert tpot.title == "Cumulative TPOT, 8 of 9 points"
    dashes = ttft.spec["encoding"]["strokeDash"]["scale"]["range"]
    assert len({*map(tuple, dashes)}) == len(dashes) == 8
