"""How a sample ended, and what a cell's samples tell by it."""

from __future__ import annotations

from typing import Any

import pytest

from benchfleet.domain.sample_end import (
    end_metrics,
    lacks_answer,
    sample_end,
    sample_ends,
    with_defaults,
)


@pytest.mark.parametrize(
    ("record", "end"),
    [
        ({"predicted_answer": "7", "finish": "stop"}, "stop"),
        ({"predicted_answer": "7"}, "stop"),
        ({"predicted_answer": "7", "finish": "length"}, "length"),
        ({"predicted_answer": "7", "finish": "max_tokens"}, "length"),
        ({"predicted_answer": "", "finish": "length"}, "length"),
        ({"predicted_answer": " \n", "finish": "stop"}, "empty"),
        ({"predicted_answer": "", "finish": "content_filter"}, "refused"),
        ({"predicted_answer": "", "finish": "refused", "error": "HTTP 400"}, "refused"),
        ({"predicted_answer": "", "error": "HTTP 413"}, "error"),
    ],
)
def test_each_record_has_one_end(record: dict[str, Any], end: str) -> None:
    assert sample_end(record) == end


@pytest.mark.parametrize(
    ("record", "lacks"),
    [
        ({"predicted_answer": "7", "finish": "stop"}, False),
        ({"predicted_answer": "", "finish": "length"}, False),
        ({"predicted_answer": "", "error": "HTTP 413"}, True),
        ({"predicted_answer": "hal", "finish": "abort"}, True),
        ({"predicted_answer": "", "finish": "error"}, True),
    ],
)
def test_an_answer_that_was_given_up_is_asked_again(record: dict[str, Any], lacks: bool) -> None:
    assert lacks_answer(record) is lacks


def test_a_text_without_an_answer_is_unparsed_unless_it_was_cut_off() -> None:
    records = [{"predicted_answer": "hm", "finish": finish} for finish in ("stop", "length")]
    assert sample_ends(records, unparsed=[0, 1]) == ["unparsed", "length"]


def test_records_without_answers_have_no_ends() -> None:
    assert sample_ends([{"predicted_answer": ""}, {"predicted_answer": ""}]) is None


def test_only_the_ends_that_occur_have_shares() -> None:
    ends = ["stop", "stop", "length", "empty"]
    metrics = end_metrics(ends, [1.0, 0.0, 1.0, 0.0], ["a", "b", "c", ""])
    assert metrics == {"ended_length": 0.25, "ended_empty": 0.25, "score_stop": 0.5}
    assert with_defaults({**metrics, "overall_score": 0.5})["ended_stop"] == 0.5
    assert with_defaults({"overall_score": 0.7})["score_stop"] == 0.7


def test_the_share_of_equal_answers_needs_ten_questions() -> None:
    answers = ["A"] * 9 + ["B"]
    assert end_metrics(["stop"] * 10, [], answers) == {"same_answer": 0.9}
    assert end_metrics(["stop"] * 9, [], ["A"] * 9) == {}
