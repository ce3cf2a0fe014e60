"""The reasoning of a model apart from its answer."""

from __future__ import annotations

import pytest

from benchfleet.domain.thinking import Thinking, split_thinking
from thinking_table import OUTPUTS, Output


@pytest.mark.parametrize("output", OUTPUTS, ids=[one.name for one in OUTPUTS])
def test_a_text_is_split_without_a_loss(output: Output) -> None:
    end = "assistant\n<think>\n" if output.opened else "assistant\n"
    thought = split_thinking(output.text, Thinking(), prompt_end=end)
    assert (thought.answer, thought.reasoning) == (output.answer, output.reasoning)
    assert thought.unclosed == (output.ended == "length")
    assert thought.text == output.text


def test_a_stop_ends_the_answer_and_not_the_reasoning() -> None:
    thought = split_thinking("<think>a\nb</think>7\nmore", Thinking(), stops=["\n"])
    assert (thought.answer, thought.reasoning, thought.tail) == ("7", "a\nb", "\nmore")


def test_other_tags_are_taken_as_they_are_written() -> None:
    thinking = Thinking(start="[THINK]", end="[/THINK]")
    assert split_thinking("[THINK]a[/THINK]7", thinking).answer == "7"
    assert split_thinking("<think>a</think>7", thinking).answer == "<think>a</think>7"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"begin": "x"}, "no key 'begin'; use start, end, budget, opened"),
        ({"end": ""}, "end must be a tag"),
        ({"budget": 0}, "budget must be a number of tokens from 1 up"),
        ({"opened": "yes"}, "opened must be true or false"),
    ],
)
def test_wrong_settings_are_named(value: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Thinking.parse(value)
