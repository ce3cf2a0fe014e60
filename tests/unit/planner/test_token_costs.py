"""Ranges of what the tokens of served cells cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.planner.token_costs import TokenForecast
from benchfleet.testing.sample_cells import sample_cell
from records import record_of

PRICE = {"in": "1 USD", "out": "10 USD"}


def cell_of(
    name: str = "m", *, price: Any = PRICE, limit: int | None = None, benchmark: str = "recall"
) -> Cell:
    cell = sample_cell(benchmark=benchmark, subset="64")
    params = {"samples": 50} if benchmark == "recall" else {}
    return replace(
        cell,
        model=replace(cell.model, name=name, digest=name, outside={"price": price}),
        workload=replace(
            cell.workload, params=params, limit=limit, generation={"max_new_tokens": 4}
        ),
    )


def ended(cell: Cell, *, prompts: int, answers: int, samples: int) -> CellRecord:
    metrics = {"samples": samples, "prompt_tokens": prompts, "completion_tokens": answers}
    outcome = Outcome(state="success", metrics=metrics)
    return replace(record_of(cell, state="success", outcome=outcome), cell=cell)


def range_of(forecast: TokenForecast, cell: Cell) -> tuple[float, float]:
    found = forecast.of(cell)
    assert found
    assert found.currency == "USD"
    return round(found.low * 1e6, 6), round(found.high * 1e6, 6)


def test_earlier_cells_that_asked_the_same_give_the_range_whatever_their_model() -> None:
    forecast = TokenForecast(
        [
            ended(cell_of("a"), prompts=1000, answers=100, samples=50),
            ended(cell_of("b"), prompts=1100, answers=200, samples=50),
            ended(cell_of("c", limit=5), prompts=9000, answers=9000, samples=5),  # a trial
        ],
        {},
    )
    assert range_of(forecast, cell_of()) == (2000, 3100)
    low, high = range_of(forecast, cell_of(limit=5))
    assert low == 200  # a tenth of the samples
    assert high == 99_000


def test_without_earlier_cells_it_is_at_most_the_longest_prompts_and_answers() -> None:
    low, high = range_of(TokenForecast([], {}), cell_of())
    answers = 50 * 4 * 10
    assert low == 0
    assert 50 * 64 < high - answers < 50 * 64 * 20  # characters of the prompts


def test_a_cell_without_a_price_has_no_range_and_unknown_cells_are_counted() -> None:
    forecast = TokenForecast([], {})
    free, vague = cell_of(price=None), cell_of(benchmark="mock_benchmark")
    assert forecast.of(free) is None
    assert forecast.of(vague) is None
    total = forecast.total([free, vague, cell_of(), cell_of(limit=1)])
    assert (total.cells, total.unknown) == (3, 1)
    (one,) = total.ranges
    known = [forecast.of(cell) for cell in (cell_of(), cell_of(limit=1))]
    assert one.high == pytest.approx(sum(each.high for each in known if each))
