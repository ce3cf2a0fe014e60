"""`Answers`: what a harness answers in any order, recorded document by document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy
import pytest

from benchfleet.benchmarks.base import Record
from benchfleet.benchmarks.lm_eval.plain_values import plain

from .harness import ONE, RED, Request, Session, Task, answers, choice_requests


def test_a_document_is_recorded_when_its_last_request_is_answered() -> None:
    session = Session()
    output = answers(Task(choice_requests(RED, ONE)), session)
    output.add_partial("loglikelihood", ("number?", " one"), (-1.0, True))
    output.add_partial("loglikelihood", ("colour?", " red"), (-3.0, False))
    assert session.kept == []
    output.add_partial("loglikelihood", ("number?", " two"), (-2.0, False))
    (record,) = session.kept
    assert (record.index, record.predicted_answer) == (1, "one")
    assert record.columns["loglikelihoods"] == [-2.0, -1.0]
    assert record.columns["target"] == ["one"]
    assert (record.prompt_tokens, record.completion_tokens) == (len("number?") + 1, 0)
    assert (record.seconds, record.measures) == (1.0, {"density": 0.2})  # of both requests
    output.add_partial("loglikelihood", ("colour?", " blue"), (-1.0, False))
    assert [(r.index, r.predicted_answer) for r in session.kept] == [(1, "one"), (0, "blue")]
    assert session.kept[1].columns["target"] == "red"


def test_equal_requests_of_two_documents_are_answered_apart() -> None:
    session = Session()
    twin = {**RED, "gold": 1}
    output = answers(Task(choice_requests(RED, twin)), session)
    for choice, value in ((" red", -1.0), (" red", -1.5), (" blue", -2.0), (" blue", -2.5)):
        output.add_partial("loglikelihood", ("colour?", choice), (value, False))
    assert [r.columns["loglikelihoods"] for r in session.kept] == [[-1.0, -2.0], [-1.5, -2.5]]
    assert [r.columns["target"] for r in session.kept] == ["red", "blue"]


def test_generated_text_is_the_answer_and_its_tokens_are_counted() -> None:
    session, settings = Session(), {"until": ["\n"], "max_gen_toks": 3}
    doc = {"q": "?K", "gold": "7", "choices": None}
    request = Request(0, ("?K", settings), doc, request_type="generate_until", repeats=2)
    output = answers(Task([request], choices=False), session)
    output.add_partial("generate_until", ("?K", dict(settings)), "7 and")
    assert session.kept == []
    output.add_partial("generate_until", ("?K", dict(settings)), "8")
    (record,) = session.kept
    assert (record.predicted_answer, record.completion_tokens) == ("7 and", 5)
    assert record.columns == {**doc, "target": "7"}


@pytest.mark.parametrize(("greedy", "output"), [(True, "end"), (False, "")])
def test_a_single_text_is_the_answer_where_the_model_would_say_it(
    greedy: bool, output: str
) -> None:
    session = Session()
    task = Task([Request(0, ("The", " end"), {"gold": "end"})], choices=False)
    answers(task, session).add_partial("loglikelihood", ("The", " end"), (-0.5, greedy))
    assert session.kept[0].predicted_answer == output


def test_rolling_likelihoods_have_no_answer() -> None:
    session = Session()
    doc = {"gold": "a page"}
    task = Task([Request(0, ("a page",), doc, request_type="loglikelihood_rolling")], choices=False)
    answers(task, session).add_partial("loglikelihood_rolling", ("a page",), -12.5)
    (record,) = session.kept
    assert (record.predicted_answer, record.columns["loglikelihoods"]) == ("", [-12.5])


def test_choices_that_stand_in_the_question_have_a_target_too() -> None:
    session = Session()
    doc = {"choices": ["he fell", "it fell"], "gold": "down", "right": 1}
    requests = [Request(0, (context, " down"), doc, idx=i) for i, context in enumerate("ab")]
    task = Task(requests)
    task.multiple_input = 2
    output = answers(task, session)
    output.add_partial("loglikelihood", ("a", " down"), (-1.0, False))
    output.add_partial("loglikelihood", ("b", " down"), (-2.0, False))
    (record,) = session.kept
    assert (record.predicted_answer, record.columns["target"]) == ("he fell", "it fell")


def test_a_stop_takes_effect_between_the_requests_of_one_document() -> None:
    session = Session(stop_after=1)
    output = answers(Task(choice_requests(RED)), session)
    with pytest.raises(KeyboardInterrupt):
        output.add_partial("loglikelihood", ("colour?", " red"), (-3.0, False))
    assert session.kept == []


def test_samples_that_lm_eval_did_not_report_are_recorded_in_the_end() -> None:
    session = Session()
    requests = choice_requests(RED, ONE)
    output = answers(Task(requests), session)
    output.add_partial("loglikelihood", ("never asked", ""), (-3.0, False))
    for request, value in zip(requests, (-1.0, -2.0, -3.0, -4.0), strict=True):
        request.resps = [(value, False)]
        if request.doc_id == 0:
            output.add_partial("loglikelihood", request.args, (value, False))
    output.finish()
    output.finish()
    assert [(r.index, r.predicted_answer) for r in session.kept] == [(0, "red"), (1, "two")]


def run_red(session: Session, value: float) -> Session:
    output = answers(Task(choice_requests(RED)), session)
    output.add_partial("loglikelihood", ("colour?", " red"), (value, False))
    output.add_partial("loglikelihood", ("colour?", " blue"), (-2.0, False))
    return session


def again(record: Record) -> Record:
    """As it comes to the next attempt."""
    return Record.from_dict(json.loads(json.dumps(record.to_dict())))


def test_what_an_earlier_attempt_recorded_is_known_and_not_recorded_again() -> None:
    (first,) = run_red(Session(), -1.0).kept
    requests = choice_requests(RED, ONE)
    session = Session(recorded=[again(first)])
    output = answers(Task(requests), session)
    assert output.recorded_answers(requests) == [(-1.0, False), (-2.0, False), None, None]
    assert run_red(session, -1.5).kept == []


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "0-other"},
        {"resume": {}},
        {"resume": {"asked": [["of other requests", [-1.0, False]], ["x", [-2.0, False]]]}},
    ],
)
def test_an_answer_to_another_document_or_request_is_not_taken(changed: dict[str, Any]) -> None:
    (first,) = run_red(Session(), -1.0).kept
    requests = choice_requests(RED)
    session = Session(recorded=[replace(again(first), **changed)])
    assert answers(Task(requests), session).recorded_answers(requests) == [None, None]
    assert len(run_red(session, -1.5).kept) == 1


def test_an_answer_that_is_asked_again_and_the_same_is_not_recorded_twice() -> None:
    (first,) = run_red(Session(), -1.0).kept
    asked = [[digest] for digest, _ in first.resume["asked"]]  # its neighbours had it asked again
    earlier = replace(again(first), resume={"asked": asked})
    assert run_red(Session(recorded=[earlier]), -1.0).kept == []
    # To other requests it is another answer: the next attempt has to know that.
    other = replace(earlier, resume={"asked": [["of other requests"], ["x"]]})
    (recorded,) = run_red(Session(recorded=[other]), -1.0).kept
    assert recorded.resume == first.resume


def test_the_answers_of_an_unfinished_document_are_kept_for_the_next_attempt_alone() -> None:
    requests = choice_requests(RED, ONE)
    session = Session()
    output = answers(Task(requests), session)
    output.add_partial("loglikelihood", ("colour?", " blue"), (-2.0, False))
    output.add_partial("loglikelihood", ("number?", " one"), (-3.0, True))
    output.add_partial("loglikelihood", ("number?", " two"), (-4.0, False))
    output.keep_unfinished()
    output.keep_unfinished()
    assert [record.index for record in session.kept] == [1, -2]
    recorded = [again(record) for record in session.kept]
    session = Session(recorded=recorded)
    output = answers(Task(requests), session)
    assert output.recorded_answers(requests) == [None, (-2.0, False), (-4.0, False), (-3.0, True)]
    output.add_partial("loglikelihood", ("colour?", " blue"), (-2.5, False))
    output.add_partial("loglikelihood", ("colour?", " red"), (-1.0, False))
    output.keep_unfinished()
    (record,) = session.kept
    assert (record.index, record.columns["loglikelihoods"]) == (0, [-1.0, -2.0])
    other = answers(Task(choice_requests({**RED, "q": "tint?"})), Session(recorded=recorded))
    assert other.recorded_answers(choice_requests({**RED, "q": "tint?"})) == [None, None]


def test_a_document_that_the_task_has_no_more_is_withdrawn() -> None:
    (first,) = run_red(Session(), -1.0).kept
    gone = replace(again(first), index=7)
    session = run_red(Session(recorded=[again(first), gone]), -1.0)
    (record,) = session.kept
    assert (record.index, record.withdrawn) == (7, True)


@pytest.mark.parametrize(
    ("kind", "args", "given"),
    [
        ("loglikelihood", ("a", " b"), [(-0.1, True), (float("-inf"), False)]),
        ("loglikelihood_rolling", ("a page",), [-12.300000000000001, -12.5]),
        ("generate_until", ("a", {"until": ["q"]}), ["said \udce9", ""]),
    ],
)
def test_the_answers_of_all_repeats_come_back_exactly_as_they_were(
    kind: str, args: tuple[Any, ...], given: list[Any]
) -> None:
    request = Request(0, args, {"gold": "x"}, request_type=kind, repeats=2)
    session, task = Session(), Task([request], choices=False)
    output = answers(task, session)
    for answer in given:
        output.add_partial(kind, args, answer)
    known = answers(task, Session(recorded=[again(session.kept[0])])).recorded_answers(
        [request, request]
    )
    assert known == given
    assert list(map(type, known)) == list(map(type, given))


def test_ids_are_the_same_for_a_document_and_others_for_another() -> None:
    def of(doc: Mapping[str, Any]) -> str:
        session = Session()
        output = answers(Task(choice_requests(doc)), session)
        for choice in doc["choices"]:
            output.add_partial("loglikelihood", (doc["q"], f" {choice}"), (-1.0, False))
        return session.kept[0].id

    assert of(RED) == of(dict(RED))
    assert of(RED) != of({**RED, "gold": 1})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({1: (2, {"a"})}, {"1": [2, ["a"]]}),
        (float("nan"), "nan"),
        (numpy.float32(0.5), 0.5),
        (numpy.array([1, 2]), "[1 2]"),
        (b"bytes", "b'bytes'"),
        (True, True),
        (None, None),
    ],
)
def test_columns_are_json_whatever_a_document_holds(value: Any, text: Any) -> None:
    assert plain(value) == text
    json.dumps(plain(value), allow_nan=False)


def test_measures_of_an_earlier_attempt_count_for_the_document_too() -> None:
    requests = (("colour?", " red"), (-3.0, False)), (("colour?", " blue"), (-1.0, False))
    whole, first = Session(), Session()
    output = answers(Task(choice_requests(RED)), whole)
    for arguments, answer in requests:
        output.add_partial("loglikelihood", arguments, answer)
    interrupted = answers(Task(choice_requests(RED)), first)
    interrupted.add_partial("loglikelihood", *requests[0])
    interrupted.keep_unfinished()
    second = Session(recorded=first.kept)
    resumed = answers(Task(choice_requests(RED)), second)
    resumed.recorded_answers(choice_requests(RED))
    resumed.add_partial("loglikelihood", *requests[1])  # measured as 0.1 again, not 0.2
    assert whole.kept[0].measures == {"density": pytest.approx(0.15)}
    assert second.kept[0].measures == {"density": pytest.approx(0.1)}
    assert first.kept[0].measures == {"density": 0.1}
