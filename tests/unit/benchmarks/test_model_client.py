from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from benchfleet.benchmarks.model_client import ModelClient
from benchfleet.benchmarks.reported_scores import Report, read_report
from benchfleet.domain.question_draws import seed_of_draw
from benchfleet.models.base import Prompt
from benchfleet.models.generation import Generation

from .conftest import HeldSession


def test_one_prompt_gives_a_text_and_a_list_gives_texts_in_batches(
    session: Callable[..., HeldSession],
) -> None:
    given = session(lambda p: p.context.upper(), batch_size=2, generation={"seed": 1})
    adapter = ModelClient(given)
    assert adapter.generate("a", temperature=0) == "A"
    assert adapter.generate(["a", "b", "c"]) == ["A", "B", "C"]
    assert [len(batch) for batch in given.adapter.batches] == [1, 2, 1]
    assert given.adapter.generations[:2] == [{"seed": 1, "temperature": 0}, {"seed": 1}]


def test_answer_takes_prompts_and_texts(session: Callable[..., HeldSession]) -> None:
    given = session(lambda p: p.context + p.question)
    answers = ModelClient(given).answer([Prompt(context="c", question="q"), "t"])
    assert [answer.text for answer in answers] == ["cq", "t"]


def test_a_request_of_the_earlier_tool_keeps_its_context_apart(
    session: Callable[..., HeldSession],
) -> None:
    given = session(lambda p: p.question)
    adapter = ModelClient(given)
    one = SimpleNamespace(context="c", questions="q", answer_prefix=" A:")
    two = SimpleNamespace(context="c", questions=["q", "r"], answer_prefix="")
    assert adapter.process_request(one, {"max_new_tokens": 2}, {}).responses == "q A:"
    assert adapter.process_request(two).responses == ["q", "r"]
    assert given.adapter.asked == [
        Prompt(context="c", question=question) for question in ("q A:", "q", "r")
    ]
    assert given.adapter.generations[0] == {"max_new_tokens": 2}


def test_numbers_of_numpy_reach_the_adapter_as_pythons_own(
    session: Callable[..., HeldSession],
) -> None:
    given = session(lambda p: p.question)
    one = SimpleNamespace(context="c", questions="q", answer_prefix="")
    kwargs = {"max_new_tokens": np.int64(2), "temperature": np.float32(0.5), "stop": None}
    ModelClient(given).process_request(one, kwargs)
    asked = given.adapter.generations[0]
    assert [type(value) for value in asked.values()] == [int, float, type(None)]
    assert Generation.parse(asked) == Generation(max_new_tokens=2, temperature=0.5)
    ModelClient(again := session(lambda p: p.question)).process_request(one, asked)
    assert again.kept[0].id == given.kept[0].id  # the same question, by any numbers
    ModelClient(given).process_request(one, {"max_new_tokens": np.bool_(True)})
    assert Generation.problems(given.adapter.generations[1])


def test_a_cell_that_is_to_stop_asks_no_more(session: Callable[..., HeldSession]) -> None:
    given = session(lambda p: "", stop_after=0)
    with pytest.raises(KeyboardInterrupt):
        ModelClient(given).generate("a")
    assert given.adapter.batches == []


def test_what_else_the_adapter_has_is_reached(session: Callable[..., HeldSession]) -> None:
    given = session(lambda p: "")
    assert ModelClient(given).batches is given.adapter.batches
    with pytest.raises(AttributeError):
        ModelClient(given).tokenizer  # noqa: B018


def test_what_an_earlier_attempt_was_answered_is_not_asked_again(
    session: Callable[..., HeldSession],
) -> None:
    def ask(given: HeldSession) -> tuple[list[str], str]:
        adapter = ModelClient(given)
        return adapter.generate(["a", "b", "c"]), adapter.generate("a", temperature=0)

    count = iter(range(99))
    whole = session(lambda p: f"{p.context}{next(count)}", batch_size=2)
    answers = ask(whole)
    assert [record.index for record in whole.kept] == [-1, -2, -3, -4]
    for known in range(5):
        again = session(lambda p: "asked", batch_size=2, recorded=whole.kept[:known][::-1])
        found, last = ask(again)
        assert [*found, last] == [*answers[0], answers[1]][:known] + ["asked"] * (4 - known)
        assert [record.index for record in again.kept] == [-1, -2, -3, -4][known:]


def test_a_batch_of_which_a_part_is_known_is_asked_whole(
    session: Callable[..., HeldSession],
) -> None:
    whole = session(lambda p: p.context, batch_size=3)
    ModelClient(whole).generate(["a", "b", "c"])
    again = session(lambda p: "new", batch_size=3, recorded=whole.kept[:2])
    assert ModelClient(again).generate(["a", "b", "c"]) == ["a", "b", "new"]
    assert [[p.context for p in batch] for batch in again.adapter.batches] == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("prompt", "generation"),
    [
        (Prompt(context="a", question="q"), {}),
        (Prompt(context="aq"), {}),
        (Prompt(context="", question="aq"), {"temperature": 1}),
    ],
)
def test_an_answer_is_given_to_the_same_question_and_settings_alone(
    session: Callable[..., HeldSession], prompt: Prompt, generation: Mapping[str, int]
) -> None:
    whole = session(lambda p: "old", generation={"seed": 1})
    ModelClient(whole).answer([Prompt(context="", question="aq")])
    again = session(lambda p: "new", generation={"seed": 1}, recorded=whole.kept)
    assert ModelClient(again).answer([prompt], generation)[0].text == "new"


def test_a_question_asked_twice_has_its_two_answers_again(
    session: Callable[..., HeldSession],
) -> None:
    count = iter(range(99))
    whole = session(lambda p: str(next(count)))
    first = ModelClient(whole)
    assert [first.generate("a"), first.generate("a")] == ["0", "1"]
    again = ModelClient(session(lambda p: "new", recorded=whole.kept))
    assert [again.generate("a") for _ in range(3)] == ["0", "1", "new"]


def test_a_question_asked_again_has_another_seed(session: Callable[..., HeldSession]) -> None:
    """Else each answer of a sampled model is a copy of the first."""
    given = session(lambda p: "", generation={"seed": 5, "temperature": 1}, batch_size=4)
    adapter = ModelClient(given)
    adapter.generate(["a", "b", "a", "a"])
    adapter.generate("a", seed=6)  # asked for the first time so
    seeds = [generation["seed"] for generation in given.adapter.generations]
    assert [len(batch) for batch in given.adapter.batches] == [2, 1, 1, 1]
    assert seeds == [5, seed_of_draw(5, 1), seed_of_draw(5, 2), 6]
    again = session(lambda p: "", generation=given.generation, recorded=given.kept[:2])
    adapter = ModelClient(again)
    assert [adapter.generate(["a", "b"]), adapter.generate("a")] == [["", ""], ""]
    assert [generation["seed"] for generation in again.adapter.generations] == [seeds[1]]


def _report(*texts: str, **fields: float) -> Report:
    samples = [{"id": text, "predicted_answer": text, **fields} for text in texts]
    return read_report({"score": 0.5, "samples": samples}, metric=None)


def test_a_sample_with_the_answer_of_its_request_has_its_measures(
    session: Callable[..., HeldSession],
) -> None:
    adapter = ModelClient(session(lambda p: p.context))
    adapter.generate(["aa", "b"])
    report = adapter.with_answers(_report("aa", "b"))
    assert [record.prompt_tokens for record in report.records] == [2, 1]
    assert [record.seconds for record in report.records] == [0.5, 0.5]
    assert [record.measures for record in report.records] == [{"density": 0.25}] * 2
    assert report.score.measures == {}
    own = adapter.with_answers(_report("aa", "b", seconds=2.0, prompt_tokens=7))
    assert [(one.seconds, one.prompt_tokens) for one in own.records] == [(2.0, 7)] * 2


@pytest.mark.parametrize("texts", [(), ("aa",), ("aa", "other")])
def test_other_reports_have_the_measures_of_all_answers(
    session: Callable[..., HeldSession], texts: Sequence[str]
) -> None:
    adapter = ModelClient(session(lambda p: p.context))
    adapter.generate(["aa", "b"])
    report = adapter.with_answers(_report(*texts))
    assert report.score.measures == {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "seconds": 1.0,
        "density": 0.25,
    }
    assert not any(record.measures or record.seconds for record in report.records)


def test_a_function_that_asked_nothing_has_no_measures(
    session: Callable[..., HeldSession],
) -> None:
    assert ModelClient(session(lambda p: "")).with_answers(_report("a")).score.measures == {}
