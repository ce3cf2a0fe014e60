"""`SampleBenchmark`: batching, resuming, recording, and the names of subsets."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pytest

from benchfleet.benchmarks.asking import context_digest
from benchfleet.benchmarks.base import Record, Sample, SampleBenchmark, Score
from benchfleet.benchmarks.bootstrap import HIGH, LOW, STDERR, bootstrap
from benchfleet.domain.part import Split
from benchfleet.errors import CellFailure
from benchfleet.models.base import Prompt
from benchfleet.testing import sample_cell

from .conftest import HeldSession


@dataclass
class Letters(SampleBenchmark):
    """Say the letter back."""

    letters: str = "abcdefg"
    known: tuple[str, ...] = ()

    def params(self) -> Mapping[str, Any]:
        return {}

    def samples(self, subset: str | None, seed: int) -> Iterator[Sample]:
        for index, letter in enumerate(self.letters):
            prompt = Prompt(context=letter, question="?")
            yield Sample(index=index, id=f"s{index}", prompt=prompt, columns={"letter": letter})

    def score(self, records: Sequence[Record]) -> Score:
        right = [float(r.predicted_answer == r.columns["letter"]) for r in records]
        return Score(overall=sum(right) / len(right), per_sample=right)

    def subsets(self) -> tuple[str, ...]:
        return self.known


def back(prompt: Prompt) -> str:
    return prompt.context


def test_every_sample_is_asked_once_in_order_and_recorded_with_its_cost(
    session: Callable[..., HeldSession],
) -> None:
    given = session(back, generation={"temperature": 0})
    score = Letters().run(given)
    assert [p.context for p in given.adapter.asked] == list("abcdefg")
    assert given.adapter.generations[0] == {"temperature": 0}
    assert re.fullmatch("[0-9a-f]{16}", given.kept[2].request)
    assert replace(given.kept[2], request="") == Record(
        index=2,
        id="s2",
        columns={"letter": "c"},
        predicted_answer="c",
        prompt_tokens=1,
        completion_tokens=1,
        seconds=0.5,
        measures={"density": 0.25},
        context=context_digest("c"),
    )
    assert score.per_sample == [1.0] * 7
    assert given.expected == 7


def test_a_scorer_that_gives_no_score_is_named(session: Callable[..., HeldSession]) -> None:
    class Forgetful(Letters):
        def score(self, records: Sequence[Record]) -> Score:
            return None  # type: ignore[return-value]

    with pytest.raises(
        CellFailure, match="Forgetful gave None as its score; make it return a Score"
    ):
        Forgetful().run(session(back))


@pytest.mark.parametrize(
    ("batch_size", "sizes"), [(1, [1] * 7), (3, [3, 3, 1]), (7, [7]), (50, [7])]
)
def test_batches_hold_the_batch_size_and_the_last_what_is_left(
    session: Callable[..., HeldSession], batch_size: int, sizes: Sequence[int]
) -> None:
    given = session(back, batch_size=batch_size)
    Letters().run(given)
    assert [len(batch) for batch in given.adapter.batches] == sizes


def test_the_limit_takes_the_first_samples_and_no_other_is_made(
    session: Callable[..., HeldSession],
) -> None:
    class Endless(Letters):
        def samples(self, subset: str | None, seed: int) -> Iterator[Sample]:
            yield from islice(super().samples(subset, seed), 3)
            pytest.fail("made a sample that nobody asked for")

    given = session(back, limit=3)
    assert len(Endless().run(given).per_sample) == 3
    assert [p.context for p in given.adapter.asked] == list("abc")
    assert given.expected == 3


def test_recorded_samples_are_not_asked_again_and_score_the_same(
    session: Callable[..., HeldSession],
) -> None:
    whole = session(lambda p: p.context if p.context in "abc" else "wrong")
    score = Letters().run(whole)
    lines = [json.dumps(whole.kept[place].to_dict()) for place in (4, 0, 1)]
    recorded = [Record.from_dict(json.loads(line)) for line in lines]
    resumed = session(whole.adapter.say, recorded=recorded, batch_size=2)

    assert Letters().run(resumed) == score
    asked = [[p.context for p in batch] for batch in resumed.adapter.batches]
    assert asked == [["c", "d"], ["e", "f"], ["g"]]  # in the batches of the first attempt
    assert [record.index for record in resumed.kept] == [2, 3, 5, 6]
    assert resumed.expected == 7


def test_an_answer_to_another_question_is_asked_again(session: Callable[..., HeldSession]) -> None:
    """The data changed since: the place is the same, the sample is not."""
    stale = Record(index=1, id="of other data", columns={}, predicted_answer="stale")
    kept = Record(index=2, id="s2", columns={"letter": "c"}, predicted_answer="c")
    given = session(back, recorded=[stale, kept])
    assert Letters().run(given).per_sample == [1.0] * 7
    assert [p.context for p in given.adapter.asked] == list("abdefg")
    assert [(r.index, r.withdrawn) for r in given.kept][:2] == [(1, True), (0, False)]


def test_nothing_is_asked_where_all_is_recorded(session: Callable[..., HeldSession]) -> None:
    whole = session(back)
    score = Letters().run(whole)
    again = session(back, recorded=whole.kept)
    assert Letters().run(again) == score
    assert again.adapter.batches == []
    assert again.kept == []


def test_records_beyond_the_limit_do_not_enter_the_score(
    session: Callable[..., HeldSession],
) -> None:
    whole = session(lambda p: "a")
    Letters().run(whole)
    limited = session(back, recorded=whole.kept, limit=2)
    assert Letters().run(limited).per_sample == [1.0, 0.0]


def test_answers_are_recorded_one_by_one_before_anything_is_scored(
    session: Callable[..., HeldSession],
) -> None:
    class Unscored(Letters):
        def score(self, records: Sequence[Record]) -> Score:
            raise ZeroDivisionError

    given = session(back)
    with pytest.raises(ZeroDivisionError):
        Unscored().run(given)
    assert len(given.kept) == 7


def test_a_cancelled_run_asks_no_further_batch(session: Callable[..., HeldSession]) -> None:
    given = session(back, stop_after=2, batch_size=2)
    with pytest.raises(KeyboardInterrupt):
        Letters().run(given)
    assert len(given.adapter.batches) == 1


def test_an_adapter_that_answers_too_few_prompts_is_an_error(
    session: Callable[..., HeldSession],
) -> None:
    given = session(back, batch_size=3)
    given.adapter.answer = lambda prompts, generation: []
    with pytest.raises(ValueError, match="0 answers to 3 prompts"):
        Letters().run(given)


def test_a_record_survives_json_and_ignores_what_it_does_not_know() -> None:
    record = Record(index=1, id="x", columns={"a": 1}, predicted_answer="é\n", seconds=0.25)
    line = json.dumps({**record.to_dict(), "score": 1.0})
    assert Record.from_dict(json.loads(line)) == record


def test_a_subset_of_a_benchmark_without_any_is_refused() -> None:
    assert Letters().check_subset("x") == "this benchmark has no subsets; remove 'x'"


def test_a_wrong_subset_names_the_near_one_or_all() -> None:
    letters = Letters(known=("narrativeqa", "qasper"))
    assert letters.check_subset("qasper") is None
    assert (
        letters.check_subset("narrativqa") == "no subset 'narrativqa'; did you mean 'narrativeqa'?"
    )
    assert letters.check_subset("z") == "no subset 'z'; there are narrativeqa, qasper"


@pytest.mark.parametrize("draws", [1, 2])
def test_parts_take_from_earlier_samples_those_of_their_range(
    session: Callable[..., HeldSession], draws: int
) -> None:
    """All parts get all, and what two of them recorded is what one attempt would have."""
    many = {"samples_per_question": draws}
    whole = session(back, **many)
    score = Letters().run(whole)
    earlier = [record for record in whole.kept if record.index in (1, 2, 5, 9)]
    cells = Split.evenly("f", 1, 1, 2).cells(sample_cell())
    kept, asked = [], 0
    for part in [cell.part for cell in cells]:
        given = session(back, recorded=earlier, part=part, **many)
        Letters().run(given)
        standing = {r.index: r for r in (*earlier, *given.kept)}
        kept += [record for record in standing.values() if not record.withdrawn]
        asked += len(given.adapter.asked)
    assert sorted(record.index for record in kept) == list(range(7 * draws))
    assert asked == 7 * draws - len(earlier)
    joined = session(back, recorded=kept, **many)
    assert Letters().run(joined) == score
    assert joined.adapter.asked == []


class Median(Letters):
    """A headline that is no mean of its samples' scores."""

    def score(self, records: Sequence[Record]) -> Score:
        scores = [float(len(record.id) + record.index) for record in records]
        return Score(overall=statistics.median(scores), per_sample=scores)


def test_a_headline_that_is_no_mean_has_the_error_of_the_bootstrap(
    session: Callable[..., HeldSession],
) -> None:
    letters = "abcdefghijklmnopqx"
    score = Median(letters).run(session(back))
    expected = bootstrap(statistics.median, [*map(float, score.per_sample)])
    assert expected.keys() == {STDERR, LOW, HIGH}
    assert {name: score.summary[name] for name in expected} == pytest.approx(expected)


def test_a_mean_has_no_error_of_the_bootstrap(session: Callable[..., HeldSession]) -> None:
    assert STDERR not in Letters().run(session(back)).summary
