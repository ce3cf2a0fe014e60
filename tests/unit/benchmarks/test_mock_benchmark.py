"""The smallest benchmark: five rows, two ways of matching, and the mock adapter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchfleet.benchmarks.base import Sample
from benchfleet.benchmarks.mock_benchmark import MockBenchmark
from benchfleet.domain.cell import Config, Model
from benchfleet.models.base import Prompt
from benchfleet.models.mock import MockAdapter

from .conftest import HeldSession


def rows(**params: Any) -> list[Sample]:
    return list(MockBenchmark(params).samples(None, 0))


def test_five_different_rows_are_built_in_and_their_contexts_hold_the_answers() -> None:
    samples = rows()
    assert len({s.prompt for s in samples}) == len({s.columns["answer"] for s in samples}) == 5
    for sample in samples:
        assert sample.columns["answer"] in sample.prompt.context
        assert sample.columns["question"] in sample.prompt.question
        assert set(sample.columns) == {"context", "question", "answer"}


def test_no_answer_is_held_by_another_so_that_one_row_is_one_fifth() -> None:
    answers = [s.columns["answer"].casefold() for s in rows()]
    assert not any(a in b for a in answers for b in answers if a != b)


def test_the_rows_are_the_same_for_every_seed() -> None:
    assert list(MockBenchmark({}).samples(None, 1)) == rows()


def test_more_rows_come_round_again_under_ids_of_their_own() -> None:
    samples = rows(rows=12)
    assert len({s.id for s in samples}) == 12
    assert [s.index for s in samples] == list(range(12))
    assert samples[11].prompt == samples[1].prompt


def test_a_longer_answer_matches_as_a_substring_and_not_exactly(
    session: Callable[..., HeldSession],
) -> None:
    def says(prompt: Prompt) -> str:
        return "It was  ADA brandt, I think." if "lighthouse" in prompt.question else "  ingham\n"

    score = MockBenchmark({}).run(session(says))
    assert score.per_sample == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert score.overall == 0.4
    assert score.tasks == {"substring_match": 0.4, "exact_match": 0.2}
    assert score.summary == {"samples": 5}


def test_silence_matches_nothing(session: Callable[..., HeldSession]) -> None:
    assert MockBenchmark({}).run(session(lambda p: "")).tasks == {
        "substring_match": 0.0,
        "exact_match": 0.0,
    }


def test_the_mock_adapter_is_right_where_it_gets_the_answer(
    session: Callable[..., HeldSession],
) -> None:
    kwargs = {"answer": "Wednesday"}
    adapter = MockAdapter(
        Model(name="m", adapter="mock", source="", digest="mock", model_kwargs=kwargs)
    )
    adapter.load()
    adapter.configure(Config(name="dense"))
    given = session(lambda p: "")
    given.adapter = adapter
    score = MockBenchmark({}).run(given)
    assert score.per_sample == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert [r.predicted_answer for r in given.kept] == ["Wednesday"] * 5


def test_parameters_are_reported_with_their_defaults() -> None:
    assert MockBenchmark({}).params() == {"rows": 5}
    assert MockBenchmark({"rows": 2}).params() == {"rows": 2}


def test_a_wrong_parameter_is_named_with_what_to_write() -> None:
    with pytest.raises(ValueError, match=r"^rows must be a whole number of at least 1, not 0$"):
        MockBenchmark({"rows": 0})
