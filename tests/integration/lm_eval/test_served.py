"""lm-eval's tasks on a server, beside lm-eval's own run against the same server."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from benchfleet.benchmarks import base
from benchfleet.benchmarks.base import Score
from benchfleet.benchmarks.lm_eval.benchmark import LmEval
from benchfleet.benchmarks.records import Record
from benchfleet.domain.cell import Model
from benchfleet.errors import CellFailure
from benchfleet.models.served.openai import OpenAIAdapter
from benchfleet.testing.simulated_server import Behaviour, SimulatedServer

from .conftest import EXAMPLES, LIMIT, Session

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
TOKENIZER = str(EXAMPLES / "model")


@pytest.fixture
def server() -> Iterator[SimulatedServer]:
    with SimulatedServer() as server:
        yield server


def run(
    server: SimulatedServer,
    tasks: Path,
    task: str,
    *,
    params: Any = None,
    sessions: list[Session] | None = None,
    **given: Any,
) -> tuple[Score, Session]:
    """A task as a cell has it; its session is added to `sessions`."""
    settings = {"api": "completions", "tokenizer": TOKENIZER, **given.pop("settings", {})}
    model = Model(
        name="served",
        adapter="openai",
        source=server.model,
        digest="d",
        model_kwargs={"url": f"{server.url}/v1", **settings},
    )
    adapter = OpenAIAdapter(model)
    try:
        adapter.load()
        server.requests.clear()
        session = Session(adapter=cast(Any, adapter), model=model, subset=task, **given)
        if sessions is not None:
            sessions.append(session)
        benchmark = LmEval({"folder": str(tasks.parent), "include_path": "tasks", **(params or {})})
        try:
            return benchmark.run(cast(base.Session, session)), session
        except KeyboardInterrupt:
            return Score(overall=-1.0), session
    finally:
        adapter.unload()


def own_run(
    server: SimulatedServer, tasks: Path, task: str, *, chat: bool = False, tokens: bool
) -> Mapping[str, Any]:
    """lm-eval's own results against that server."""
    import lm_eval
    from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI
    from lm_eval.tasks import TaskManager

    before = os.getcwd()
    os.chdir(tasks)  # where lm-eval looks for data by a relative path
    try:
        results = lm_eval.simple_evaluate(
            model=(LocalChatCompletion if chat else LocalCompletionsAPI)(
                model=server.model,
                base_url=f"{server.url}/v1/{'chat/' if chat else ''}completions",
                tokenizer=TOKENIZER if tokens else None,
                tokenizer_backend="huggingface" if tokens else None,
                num_concurrent=4,
            ),
            tasks=[task],
            limit=LIMIT,
            task_manager=TaskManager(include_path=str(tasks), include_defaults=False),
            bootstrap_iters=0,
            apply_chat_template=chat,
        )
    finally:
        os.chdir(before)
    assert results is not None
    return dict(results)


@pytest.mark.parametrize(
    ("task", "metric", "chat"),
    [
        ("recall_choice", "acc", False),
        ("shots", "acc_norm", False),
        ("recall_generate", "exact_match", False),
        ("recall_generate", "exact_match", True),
    ],
)
def test_scores_and_requests_are_those_of_lm_eval_itself(
    server: SimulatedServer, tasks: Path, task: str, metric: str, chat: bool
) -> None:
    server.otherwise = Behaviour(tokens=1)
    settings = {"api": "chat" if chat else "completions"}
    params = {"apply_chat_template": chat, "metric": metric}
    score, session = run(server, tasks, task, settings=settings, params=params, limit=LIMIT)
    ours = [request.body for request in server.requests]
    server.requests.clear()
    own = own_run(server, tasks, task, chat=chat, tokens=task != "recall_generate")
    theirs = [request.body for request in server.requests]
    assert sorted(map(str, ours)) == sorted(map(str, theirs))
    assert score.overall == own["results"][task][f"{metric},none"]
    samples = sorted(own["samples"][task], key=lambda sample: sample["doc_id"])
    assert list(score.per_sample) == [sample[metric] for sample in samples]
    assert len(session.samples) == LIMIT


def test_an_interrupted_run_asks_only_what_is_left(server: SimulatedServer, tasks: Path) -> None:
    settings = {"requests_at_once": 2}
    whole, _ = run(server, tasks, "recall_generate", settings=settings)
    _, first = run(server, tasks, "recall_generate", settings=settings, stop_after=5)
    assert len(first.samples) == 5
    score, second = run(server, tasks, "recall_generate", settings=settings, recorded=first.kept)
    assert score == whole
    assert len(server.requests) == LIMIT - 5
    assert len(second.samples) == LIMIT - 5


def test_paid_answers_survive_the_final_failure_of_another(
    server: SimulatedServer, tasks: Path
) -> None:
    settings = {"requests_at_once": 3}
    server.script = deque([Behaviour()] * 4 + [Behaviour(first_s=0.2), Behaviour(status=400)])
    sessions: list[Session] = []
    with pytest.raises(CellFailure, match="HTTP 400"):
        run(server, tasks, "recall_generate", settings=settings, sessions=sessions)
    answered = len(server.requests) - 1  # one failed
    assert answered
    run(server, tasks, "recall_generate", settings=settings, recorded=sessions[0].kept)
    assert len(server.requests) == LIMIT - answered


def test_answers_of_a_group_survive_when_too_many_samples_failed(
    server: SimulatedServer, tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(session: Session, one: Record) -> None:
        keep(session, one)
        if one.error:  # as the slot's session does
            raise CellFailure(stage="benchmark", kind="bad_request", message=one.error)

    keep = Session.record
    monkeypatch.setattr(Session, "record", record)
    monkeypatch.setattr(OpenAIAdapter, "keeps_errors", True)
    server.script = deque([Behaviour()] * 3 + [Behaviour(status=400)])
    sessions: list[Session] = []
    with pytest.raises(CellFailure, match="HTTP 400"):
        run(server, tasks, "recall_generate", settings={"requests_at_once": 4}, sessions=sessions)
    assert len(sessions[0].samples) == len(server.requests)


def test_what_a_server_cannot_do_is_named(server: SimulatedServer, tasks: Path) -> None:
    with pytest.raises(CellFailure, match=r"compares likelihoods; give the model .* a tokenizer"):
        run(server, tasks, "recall_choice", settings={"tokenizer": ""})
    with pytest.raises(CellFailure, match="needs apply_chat_template: true"):
        run(server, tasks, "recall_generate", settings={"api": "chat"})
    server.otherwise = Behaviour(ignores=frozenset({"echo"}))
    with pytest.raises(CellFailure, match="gives no log-probabilities of prompts") as caught:
        run(server, tasks, "recall_choice")
    assert caught.value.kind == "user_error"
