"""Serving results in reports."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.domain.usage import Rate, Usage
from benchfleet.reports.serving import HEADS, LEGEND, ServingPoint, first_load_warnings, legend
from benchfleet.reports.serving_charts import Chart, charts
from benchfleet.reports.serving_points import serving_points
from benchfleet.testing import sample_cell
from records import record_of

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
        billed_tokens=2_000_000,
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


def test_the_cost_of_tokens_stands_beside_that_of_the_machine() -> None:
    both = replace(point(), token_cost=0.8)
    assert row(both)["per Mtok"] == "1.00 / 2.00 USD (60 / 75 s) + 0.80 USD for tokens"
    alone = replace(both, price_per_hour=None, bill=0.0)
    assert row(alone)["per Mtok"] == "0.80 USD for tokens"
    assert alone.to_dict()["cost_per_million"] == {"tokens": 0.8, "currency": "USD"}


TOKENS_PAID = Usage.at(Rate(), 9.0).with_tokens(97 * 16, 97 * (6.4 + 6.4) / 1e6, "USD")


def serving_cell(outcome: Outcome) -> tuple[Cell, CellRecord]:
    cell = sample_cell(benchmark="serving", subset="c8")
    return cell, record_of(cell, state=outcome.state, outcome=outcome)


def test_a_million_tokens_cost_what_their_price_says_however_long_the_point_took() -> None:
    """0.10 USD in and 0.40 USD out: 64 and 16 tokens a request are 0.80 USD for a million."""
    outcome = Outcome(state="success", digest="d", usage=TOKENS_PAID)
    (one,) = serving_points([serving_cell(outcome)], lambda record: METRICS)
    assert one.cost() == {"tokens": pytest.approx(0.80, rel=1e-12), "currency": "USD"}


def test_the_bill_of_a_search_is_for_the_tokens_of_all_its_points() -> None:
    usage = Usage(seconds=100.0, cost=4.0, currency="USD")
    outcome = Outcome(state="success", digest="d", usage=usage)
    points = [
        {"level": level, "verdict": "pass", "is_decided": True, "metrics": METRICS}
        for level in (1, 2)
    ]
    details = {"points": points, "capacity": 2, "conclusion": "at least 2"}
    found = serving_points([serving_cell(outcome)], lambda record: details)
    assert [one.cost()["billed"] for one in found] == [1.0, 1.0]  # 4 USD for 2 × 2 million


def test_a_result_whose_files_are_elsewhere_has_the_numbers_of_the_ledger() -> None:
    reported = {"output_tokens_per_second": 755.8, "error_count": 0}
    outcome = Outcome(state="success", digest="d", reported=reported)
    (one,) = serving_points([serving_cell(outcome)], lambda record: {})
    assert (row(one)["output tok/s"], row(one)["errors"]) == ("755.8", "0")


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


@pytest.mark.parametrize(
    ("failed", "remark"),
    [(1, ""), (2, "2 of 175 requests failed"), (173, "173 of 175 requests failed")],
)
def test_a_point_whose_requests_failed_often_has_a_remark_and_a_warning(
    failed: int, remark: str
) -> None:
    """More than the 1 % that a point of a search may have."""
    one = point(error_count=failed, total_requests=175)
    assert row(one)["remarks"] == remark
    warned = (f"m / c / c8: concurrency 8: {remark}",) if remark else ()
    assert first_load_warnings([one]) == warned
    assert first_load_warnings([replace(one, verdict="miss")]) == ()


def test_of_many_points_with_failed_requests_the_first_are_named() -> None:
    *named, last = first_load_warnings([point(error_count=9, total_requests=10)] * 9)
    assert (len(named), last) == (6, "and 3 more load points with failed requests")


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
    assert (cells["output tok/s"], cells["errors"]) == ("12.5", "3")
    assert cells["remarks"] == "partial; 3 of 40 requests failed"
    assert first_load_warnings([partial]) == ()  # it is among the failures


@pytest.mark.slow
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


@pytest.mark.slow
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
