"""Tasks of lm-eval in parts: each asks a range of documents; together they score as the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from benchfleet.benchmarks.base import Record
from kept_sessions import asked_in_parts

from .conftest import LIMIT

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def in_parts(
    evaluated: Any, task: str, count: int, *, recorded: Sequence[Record] = (), **given: Any
) -> tuple[list[Record], int]:
    """What the parts of a task leave, and how many documents they asked."""
    return asked_in_parts(partial(evaluated, task, **given), count, recorded)


TASKS = ["recall_choice", "recall_generate", "shots", "rolling", "correlation"]


@pytest.mark.parametrize("task", TASKS)
def test_the_score_of_parts_is_that_of_the_whole(evaluated: Any, task: str) -> None:
    """With few-shot examples, which lm-eval draws document by document; and with metrics that are
    no means of the documents' values."""
    given: dict[str, Any] = {"params": {"num_fewshot": 2}} if task == "shots" else {}
    whole, session = evaluated(task, **given)
    records, asked = in_parts(evaluated, task, 3, **given)
    assert asked == LIMIT
    assert [r.index for r in records] == list(range(LIMIT))
    alike = [(r.index, r.id, r.predicted_answer, r.resume) for r in session.samples]
    assert [(r.index, r.id, r.predicted_answer, r.resume) for r in records] == alike
    joined, last = evaluated(task, recorded=records, **given)
    assert joined == whole
    assert last.kept == []


def test_parts_go_on_after_what_the_whole_had_recorded(evaluated: Any) -> None:
    """It asks the longest first, so that all parts have some of it."""
    whole, session = evaluated("recall_choice")
    earlier = [record for record in session.samples if record.index % 3 == 0]
    records, asked = in_parts(evaluated, "recall_choice", 2, recorded=earlier)
    assert asked == LIMIT - len(earlier)
    assert evaluated("recall_choice", recorded=records)[0] == whole


def test_several_answers_to_a_question_stay_in_its_part(evaluated: Any) -> None:
    drawn = {"seed": 7, "max_new_tokens": 4}
    given: dict[str, Any] = {"samples_per_question": 2, "generation": drawn}
    whole, _ = evaluated("recall_generate", **given)
    records, asked = in_parts(evaluated, "recall_generate", 2, **given)
    assert asked == 2 * LIMIT
    assert evaluated("recall_generate", recorded=records, **given)[0] == whole


def test_a_cut_lies_between_contexts(evaluated: Any) -> None:
    """Documents with one context are asked by one part, which reads it once."""
    given: dict[str, Any] = {"params": {"context": "context"}}
    whole, session = evaluated("recall_generate", **given)
    records, _ = in_parts(evaluated, "recall_generate", 4, **given)
    assert Counter(r.context for r in records) == Counter(r.context for r in session.samples)
    assert evaluated("recall_generate", recorded=records, **given)[0] == whole
