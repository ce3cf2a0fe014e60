"""How many samples show a difference of a given size."""

from __future__ import annotations

import math

import pytest

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.averages import standard_error
from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.planner.power import ASSUMED_DEVIATION, power
from benchfleet.reports.detectable_effect import samples_to_detect
from benchfleet.reports.tables import Comparison, compare
from benchfleet.results.read import SampleScores
from records import record_of

DENSE = [1.0, 0.0] * 50
SPARSE = [1.0] * 75 + [0.0] * 25


def compared(*scores: list[float]) -> Comparison:
    """One config for each list of scores; with an empty one, the cell is pending."""
    cells, records, samples = [], [], {}
    for number, values in enumerate(scores):
        steps = (AttentionStep(name="sink"),) if number else ()
        cell = Cell(
            model=Model(name="tiny", adapter="mock", source="tiny", digest="tiny"),
            config=Config(name=f"c{number}", attention=steps),
            workload=Workload(benchmark="recall", version="1", subset="512"),
        )
        cells.append(cell)
        if values:
            metrics = {"overall_score": sum(values) / len(values), "samples": len(values)}
            outcome = Outcome(state="success", metrics=metrics)
            records.append(record_of(cell, state="success", outcome=outcome))
            samples[cell.fingerprint] = {str(n): value for n, value in enumerate(values)}
    return compare(records, cells, lambda r: SampleScores(scores=samples[r.fingerprint]))


def test_the_results_so_far_say_how_much_scores_vary() -> None:
    (found,) = power(compared(DENSE, SPARSE), 0.02)
    differences = [b - a for a, b in zip(DENSE, SPARSE, strict=True)]
    error = standard_error(differences)
    assert error is not None
    assert found.deviation == pytest.approx(error * 10)
    assert found.needed == samples_to_detect(0.02, found.deviation, is_binary=True)
    assert (found.samples, found.pairs) == (100, 1)
    assert found.detectable == pytest.approx(2.8292 * error, rel=1e-4)  # 99 degrees
    assert "its 100 show differences from 0.186" in str(found)


def test_without_results_independent_scores_of_0_and_1_are_assumed() -> None:
    (found,) = power(compared([], []), 0.02)
    known_deviation = math.ceil((2.80158 * ASSUMED_DEVIATION / 0.02) ** 2)
    assert found.needed == known_deviation + 2 + 100  # it is estimated, and the test is exact
    assert (found.samples, found.detectable, found.pairs) == (None, None, 0)
    assert "assumed" in str(found)


def test_too_few_samples_show_no_difference_of_scores_from_0_to_1() -> None:
    (found,) = power(compared([1.0, 0.0], [0.0, 0.0]), 0.02)
    assert found.too_few_samples
    assert found.detectable is not None
    assert found.detectable > 1
    assert "its 2 are too few to show any difference" in str(found)


def test_equal_scores_say_nothing_of_how_much_they_vary() -> None:
    (found,) = power(compared(DENSE, DENSE), 0.02)
    assert (found.deviation, found.pairs, found.samples) == (ASSUMED_DEVIATION, 0, 100)
