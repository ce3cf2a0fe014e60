"""Tasks of lm-eval that are stopped and go on, as if they had not been."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from benchfleet.benchmarks.base import Record

from .conftest import LIMIT

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def content_of(record: Record) -> dict[str, Any]:
    """A record without what is measured again each time."""
    return {**record.to_dict(), "seconds": 0}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts each call of the model had."""
    from lm_eval.models.huggingface import HFLM

    made: list[int] = []
    for name in ("_model_call", "_model_generate"):
        own = getattr(HFLM, name)

        def counted(self: Any, *args: Any, own: Any = own, **kwargs: Any) -> Any:
            made.append(len(args[0] if args else kwargs["context"]))
            return own(self, *args, **kwargs)

        monkeypatch.setattr(HFLM, name, counted)
    return made


def stopped(evaluated: Any, task: str, counts: Sequence[int], **given: Any) -> list[Record]:
    """What is recorded of a task that is stopped after so many records, then after so many more."""
    recorded: list[Record] = []
    for count in counts:
        kept: list[Record] = []
        with pytest.raises(KeyboardInterrupt):
            evaluated(task, recorded=recorded, stop_after=count, kept=kept, **given)
        assert len(kept) == count
        lines = [json.dumps(record.to_dict(), allow_nan=False) for record in kept]
        recorded += [Record.from_dict(json.loads(line)) for line in lines]
    return recorded


# Each way to make batches is asked in batches of four; the drawn answers below one by one too.
@pytest.mark.parametrize(
    ("task", "batch_size"),
    [("recall_choice", 1), ("shots", 4), ("recall_generate", 4), ("rolling", 4)],
)
def test_a_run_that_is_stopped_again_and_again_ends_as_one_that_was_not(
    evaluated: Any, calls: list[int], task: str, batch_size: int
) -> None:
    whole, session = evaluated(task, batch_size=batch_size)
    alone = list(calls)
    recorded: list[Record] = []
    calls.clear()
    recorded = stopped(evaluated, task, (3, 1, 6), batch_size=batch_size)
    resumed, last = evaluated(task, batch_size=batch_size, recorded=recorded)
    assert resumed == whole
    everything = {record.index: content_of(record) for record in (*recorded, *last.kept)}
    assert everything == {record.index: content_of(record) for record in session.kept}
    assert len(recorded) + len(last.kept) == len(session.kept)
    assert sum(calls) <= sum(alone) + 3 * batch_size  # the batch that each stop fell into


@pytest.mark.parametrize("batch_size", [1, 3])
def test_answers_that_are_drawn_go_on_with_the_same_random_numbers(
    evaluated: Any, calls: list[int], batch_size: int
) -> None:
    drawn = {"seed": 7, "max_new_tokens": 6, "temperature": 1.5, "top_k": 20}
    given = {"generation": drawn, "batch_size": batch_size}
    whole, session = evaluated("recall_generate", **given)
    recorded = stopped(evaluated, "recall_generate", (4, 3), **given)
    calls.clear()
    resumed, last = evaluated("recall_generate", recorded=recorded, **given)
    assert resumed == whole
    found = {record.index: content_of(record) for record in (*recorded, *last.kept)}
    assert found == {record.index: content_of(record) for record in session.kept}
    assert sum(calls) < LIMIT
    assert len({record.predicted_answer for record in session.kept}) > 2


def test_a_task_of_which_all_is_recorded_asks_nothing(evaluated: Any, calls: list[int]) -> None:
    whole, session = evaluated("shots", batch_size=4)
    calls.clear()
    again, nothing = evaluated("shots", batch_size=4, recorded=session.kept)
    assert (again, calls, nothing.kept) == (whole, [], [])


def test_answers_to_other_examples_are_not_taken(evaluated: Any) -> None:
    """The same documents, asked after other few-shot examples."""
    _, first = evaluated("shots", limit=3, params={"num_fewshot": 2})
    whole, session = evaluated("shots", limit=3, params={"num_fewshot": 2}, repeat=1)
    score, again = evaluated(
        "shots", limit=3, params={"num_fewshot": 2}, repeat=1, recorded=first.kept
    )
    assert score == whole
    assert list(map(content_of, again.kept)) == list(map(content_of, session.kept))


def test_answers_to_another_draw_of_examples_are_asked_again_with_a_notice(evaluated: Any) -> None:
    params = {"num_fewshot": 2}
    _, first = evaluated("recall_generate", params=params)
    recorded = [Record.from_dict(one.to_dict()) for one in first.kept]
    _, same = evaluated("recall_generate", params=params, recorded=recorded)
    assert (same.kept, same.notices) == ([], [])
    # The examples of another repeat stand for those of a task whose draw changes with the limit.
    _, other = evaluated("recall_generate", params=params, recorded=recorded, repeat=1)
    assert len(other.samples) == LIMIT
    assert other.notices == [
        f"{LIMIT} questions asked again: the earlier answer has another prompt, such as by another "
        "draw of few-shot examples"
    ]
