"""One table of model outputs gives the same answers through transformers, openai and lm-eval."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from benchfleet.benchmarks import base
from benchfleet.benchmarks.asking import split_again
from benchfleet.benchmarks.lm_eval.benchmark import LmEval
from benchfleet.benchmarks.records import Record, Sample, Score
from benchfleet.domain.cell import Config, Model
from benchfleet.domain.sample_end import sample_end
from benchfleet.domain.thinking import Thinking
from benchfleet.models.base import Adapter, Prompt
from benchfleet.models.decoding import Continuation
from benchfleet.models.served.openai import OpenAIAdapter
from benchfleet.models.transformers import TransformersAdapter
from benchfleet.testing.simulated_server import SimulatedServer
from kept_sessions import KeptSession
from thinking_table import OUTPUTS, Output

EXAMPLE = Path(__file__).parents[2] / "examples" / "recall"
TEMPLATE = (
    "{% for message in messages %}[{{ message.role }}] {{ message.content }} {% endfor %}"
    "[assistant]{% if enable_thinking %}<think>{% endif %}"
)
SYSTEM = "Answer with one digit."
PLAIN = tuple(one for one in OUTPUTS if not one.opened)
OPENED = tuple(one for one in OUTPUTS if one.opened)
TABLES = pytest.mark.parametrize("outputs", [PLAIN, OPENED], ids=["model opens", "template opens"])


def config(outputs: Sequence[Output], **thinking: Any) -> Config:
    chat = {"system": SYSTEM, "template_kwargs": {"enable_thinking": outputs[0].opened}}
    return Config(name="think", chat=chat, thinking={"start": "<think>", **thinking})


class Questions(base.SampleBenchmark):
    """A question for each output."""

    def __init__(self, count: int) -> None:
        self._count = count

    def params(self) -> dict[str, Any]:
        return {}

    def samples(self, subset: str | None, seed: int) -> Iterator[Sample]:
        for n in range(self._count):
            yield Sample(index=n, id=str(n), prompt=Prompt(context="text ", question=f"#{n}"))

    def score(self, records: Sequence[Record]) -> Score:
        return Score(overall=0.0, per_sample=[0.0] * len(records))


def checked(records: Sequence[Record], outputs: Sequence[Output]) -> None:
    for record, output in zip(records, outputs, strict=True):
        assert (record.predicted_answer, record.reasoning) == (output.answer, output.reasoning)
        assert sample_end(record.to_dict()) == output.ended, output.name
        assert bool(record.reasoning_tokens) == bool(output.reasoning)


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Adapter]]:
    """The real adapter on the demo's model, whose decoder says the outputs one after another."""
    pytest.importorskip("torch")
    source = str(EXAMPLE / "model")
    digest = TransformersAdapter.digest(source)
    adapter = TransformersAdapter(
        Model(name="tiny", adapter="transformers", source=source, digest=digest)
    )
    adapter.load()
    loaded = cast(Any, adapter._loaded)
    loaded.tokenizer.chat_template = TEMPLATE
    asked: list[str] = []

    def saying(outputs: Sequence[Output]) -> Adapter:
        coming = iter(outputs)

        def said(batch: Any, *_: Any) -> list[Continuation]:
            asked.extend(one.prompt_end for one in batch)
            texts = [next(coming).text for _ in batch]
            return [Continuation(ids=tuple(range(len(text))), cut=False) for text in texts]

        spoken = {n: one.text for n, one in enumerate(outputs)}
        order = iter(range(len(outputs)))
        monkeypatch.setattr(loaded.decoder, "generate_batch", said)
        monkeypatch.setattr(loaded.encoder, "decode", lambda ids: spoken[next(order)])
        return adapter

    yield saying
    assert all(one.rstrip().endswith(("[assistant]", "[assistant]<think>")) for one in asked)
    adapter.unload()


@pytest.fixture
def openai() -> Iterator[Callable[..., Adapter]]:
    """The real adapter on a server that says the outputs, and hides what its template opened."""
    with SimulatedServer() as server:
        model = Model(
            name="served",
            adapter="openai",
            source=server.model,
            digest="d",
            model_kwargs={"url": f"{server.url}/v1", "requests_at_once": 1},
        )
        adapter = OpenAIAdapter(model)
        adapter.load()

        def saying(outputs: Sequence[Output]) -> Adapter:
            coming = iter(outputs)
            server.respond = lambda body: next(coming).text
            server.requests.clear()
            return adapter

        try:
            yield saying
        finally:
            adapter.unload()
        for request in server.requests:
            assert request.body["messages"][0] == {"role": "system", "content": SYSTEM}
            assert "enable_thinking" in request.body["chat_template_kwargs"]
            assert "stop" not in request.body


def run(adapter: Adapter, cell_config: Config, count: int) -> KeptSession:
    adapter.configure(cell_config)
    session = KeptSession(adapter=adapter, model=adapter.model, subset=None, config=cell_config)
    session.generation = {"max_new_tokens": 64, "stop": ["\n"]}
    Questions(count).run(cast(base.Session, session))
    return session


@TABLES
def test_through_transformers(transformers: Any, outputs: Sequence[Output]) -> None:
    session = run(transformers(outputs), config(outputs), len(outputs))
    checked(session.samples, outputs)


@TABLES
def test_through_openai(openai: Any, outputs: Sequence[Output]) -> None:
    opened = {"opened": True} if outputs[0].opened else {}
    session = run(openai(outputs), config(outputs, **opened), len(outputs))
    checked(session.samples, outputs)


@TABLES
@pytest.mark.parametrize("adapter", ["transformers", "openai"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_through_lm_eval(
    adapter: str, request: pytest.FixtureRequest, outputs: Sequence[Output]
) -> None:
    pytest.importorskip("lm_eval")
    opened = {"opened": True} if outputs[0].opened and adapter == "openai" else {}
    cell_config = config(outputs, **opened)
    asked = request.getfixturevalue(adapter)(outputs)
    asked.configure(cell_config)
    session = KeptSession(
        adapter=asked,
        model=asked.model,
        subset="recall_generate",
        config=cell_config,
        limit=len(outputs),
        generation={"max_new_tokens": 64},
    )
    params = {"folder": str(EXAMPLE), "include_path": "tasks", "apply_chat_template": True}
    LmEval(params).run(cast(base.Session, session))
    checked(session.samples, outputs)


def test_other_tags_are_applied_to_what_is_stored(openai: Any) -> None:
    chat = config(PLAIN).chat
    wrong = Config(name="c", thinking={"start": "[THINK]", "end": "[/THINK]"}, chat=chat)
    with_tags = [one for one in PLAIN if one.name in ("tags", "nested", "unclosed")]
    adapter = openai(with_tags)
    adapter.configure(wrong)
    session = KeptSession(adapter=adapter, model=adapter.model, subset=None, config=wrong)
    Questions(len(with_tags)).run(cast(base.Session, session))
    assert [one.predicted_answer for one in session.samples] == [one.text for one in with_tags]
    again = [split_again(one, Thinking()) for one in session.samples]
    checked(again, with_tags)
    assert [split_again(one, Thinking()) for one in again] == again
    back = [split_again(one, None).predicted_answer for one in again]
    assert back == [one.text for one in with_tags]


def test_a_budget_closes_the_block() -> None:
    pytest.importorskip("torch")
    source = str(EXAMPLE / "model")
    digest = TransformersAdapter.digest(source)
    model = Model(name="tiny", adapter="transformers", source=source, digest=digest)
    adapter = TransformersAdapter(model)
    adapter.load()
    thinking = {"start": "<", "end": "Z9", "budget": 5, "opened": True}
    cell_config = Config(name="c", thinking=thinking)
    adapter.configure(cell_config)
    session = KeptSession(adapter=adapter, model=model, subset=None, config=cell_config)
    session.generation = {"max_new_tokens": 12}
    Questions(2).run(cast(base.Session, session))
    for record in session.samples:
        assert record.reasoning_tokens == 5
        assert record.thought["after"].startswith("Z9")
        assert record.completion_tokens <= 12
        assert "unclosed" not in record.thought
    adapter.unload()
