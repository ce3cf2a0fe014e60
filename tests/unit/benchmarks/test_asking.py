from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchfleet.benchmarks.asking import AskingAdapter
from benchfleet.models.base import Prompt


def test_one_prompt_gives_a_text_and_a_list_gives_texts_in_batches(session):
    given = session(lambda p: p.context.upper(), batch_size=2, generation={"seed": 1})
    adapter = AskingAdapter(given)
    assert adapter.generate("a", temperature=0) == "A"
    assert adapter.generate(["a", "b", "c"]) == ["A", "B", "C"]
    assert [len(batch) for batch in given.adapter.batches] == [1, 2, 1]
    assert given.adapter.generations[:2] == [{"seed": 1, "temperature": 0}, {"seed": 1}]


def test_answer_takes_prompts_and_texts(session):
    given = session(lambda p: p.context + p.question)
    answers = AskingAdapter(given).answer([Prompt(context="c", question="q"), "t"])
    assert [answer.text for answer in answers] == ["cq", "t"]


def test_a_request_of_the_earlier_tool_keeps_its_context_apart(session):
    given = session(lambda p: p.question)
    adapter = AskingAdapter(given)
    one = SimpleNamespace(context="c", questions="q", answer_prefix=" A:")
    two = SimpleNamespace(context="c", questions=["q", "r"], answer_prefix="")
    assert adapter.process_request(one, {"max_new_tokens": 2}, {}).responses == "q A:"
    assert adapter.process_request(two).responses == ["q", "r"]
    assert given.adapter.asked == [
        Prompt(context="c", question=question) for question in ("q A:", "q", "r")
    ]
    assert given.adapter.generations[0] == {"max_new_tokens": 2}


def test_a_cell_that_is_to_stop_asks_no_more(session):
    given = session(lambda p: "", stop_after=0)
    with pytest.raises(KeyboardInterrupt):
        AskingAdapter(given).generate("a")
    assert given.adapter.batches == []


def test_what_else_the_adapter_has_is_reached(session):
    given = session(lambda p: "")
    assert AskingAdapter(given).batches is given.adapter.batches
    with pytest.raises(AttributeError):
        AskingAdapter(given).tokenizer  # noqa: B018
