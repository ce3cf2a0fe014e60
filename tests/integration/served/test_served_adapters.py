"""The adapters of served models, against the simulated server."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from benchfleet.domain.cell import Model
from benchfleet.errors import CellFailure
from benchfleet.models.base import Adapter
from benchfleet.models.served.client import Client
from benchfleet.models.served.endpoint import Endpoint
from benchfleet.models.served.ollama import OllamaAdapter
from benchfleet.models.served.openai import OpenAIAdapter
from benchfleet.testing.simulated_answers import answer_tokens
from benchfleet.testing.simulated_server import DIGEST, Behaviour, SimulatedServer

from .adapters import GREEDY, PROMPTS, loaded


@pytest.mark.parametrize("kind", [OpenAIAdapter, OllamaAdapter])
@pytest.mark.parametrize("api", ["chat", "completions"])
def test_answers_come_in_order_with_finish_and_counts(kind: type[Adapter], api: str) -> None:
    with SimulatedServer() as server, loaded(kind, server, api=api) as adapter:
        answers = adapter.answer(PROMPTS, GREEDY)
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        text = prompt.text if api == "completions" else f"user: {prompt.text}"
        assert answer.text == "".join(answer_tokens(text, 4))
        assert (answer.finish, answer.completion_tokens) == ("length", 4)
    assert adapter.provenance()["abilities"]["usage"]


@pytest.mark.parametrize("how", ["ignores", "refuses"])
@pytest.mark.parametrize("lacking", ["nothing", "logprobs", "ignore_eos", "echo"])
def test_a_server_is_asked_once_what_it_can_do(how: str, lacking: str) -> None:
    behaviour = Behaviour(tokens=1, **{how: frozenset({lacking})})  # type: ignore[arg-type]
    with (
        SimulatedServer(otherwise=behaviour) as server,
        loaded(OpenAIAdapter, server, api="completions") as adapter,
    ):
        abilities = adapter.abilities or {}
        asked = len(server.requests)
        adapter.answer(PROMPTS, GREEDY)
    # Where both are refused together, the server is asked again without the one.
    lost = {"echo": {"prompt_logprobs"}, "logprobs": {"logprobs", "prompt_logprobs"}}
    if how == "refuses" and lacking == "logprobs":
        lost["logprobs"] |= {"ignore_eos"}
    expected = {"usage", "logprobs", "prompt_logprobs", "ignore_eos", "done"}
    expected -= lost.get(lacking, {lacking})
    assert {name for name, there in abilities.items() if there} == expected
    assert asked <= 6
    assert len(server.requests) == asked + len(PROMPTS)


def test_a_server_whose_streams_end_without_done_is_known_as_such() -> None:
    behaviour = Behaviour(fault="no_last_object")
    with SimulatedServer(otherwise=behaviour) as server, loaded(OpenAIAdapter, server) as adapter:
        assert adapter.abilities
        assert not adapter.abilities["done"]
        assert not adapter.abilities["ignore_eos"]  # no usage and no finish reason tell it


def test_requests_are_answered_beside_each_other_up_to_the_limit() -> None:
    behaviour = Behaviour(first_s=0.05)
    with (
        SimulatedServer(otherwise=behaviour) as server,
        loaded(OpenAIAdapter, server, requests_at_once=3) as adapter,
    ):
        adapter.answer(PROMPTS[:9], GREEDY)
    assert server.most_at_once == 3


def test_a_server_that_is_away_is_named_at_load() -> None:
    with SimulatedServer() as server:
        pass
    client = Client(Endpoint(url=server.url), uniform=lambda low, high: 0.0)
    with pytest.raises(CellFailure, match="no answer from") as caught:
        list(client.post_each("/chat/completions", [{}]))
    client.close()
    assert caught.value.kind == "server_unavailable"
    assert caught.value.is_retryable
    assert "ssl:default" not in str(caught.value)


def test_a_request_that_takes_too_long_is_a_timeout() -> None:
    with SimulatedServer() as server, loaded(OpenAIAdapter, server, timeout="1s") as adapter:
        server.otherwise = Behaviour(first_s=60)
        with pytest.raises(CellFailure, match="in 1 s") as caught:
            adapter.answer(PROMPTS[:1], GREEDY)
    assert caught.value.kind == "timeout"


def test_the_key_comes_from_the_environment_and_a_wrong_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SIMULATED_KEY", "right-key-of-a-test")
    with SimulatedServer(key="right-key-of-a-test") as server:
        with loaded(OpenAIAdapter, server, key="env:SIMULATED_KEY"):
            pass
        assert server.requests[-1].key == "right-key-of-a-test"
        monkeypatch.setenv("SIMULATED_KEY", "wrong")
        with (
            pytest.raises(CellFailure) as caught,
            loaded(OpenAIAdapter, server, key="env:SIMULATED_KEY"),
        ):
            pass
        assert (caught.value.stage, caught.value.kind) == ("load", "wrong_key")
        monkeypatch.delenv("SIMULATED_KEY")
        with (
            pytest.raises(CellFailure, match="SIMULATED_KEY is not set"),
            loaded(OpenAIAdapter, server, key="env:SIMULATED_KEY"),
        ):
            pass


@contextmanager
def replying(body: bytes) -> Iterator[str]:
    """The URL of a server whose every reply is this body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("body", "problem", "beginning"),
    [
        (b"<html>\n gateway</html>", "it is no JSON", "<html> gateway</html>"),
        (b"\xff\xfe" + b"x" * 900, "it is no JSON", "\ufffd\ufffd" + "x" * 298),
        (b"", "it is no JSON", "nothing"),
        (b"[1,2]", "it is a list, not an object", "[1, 2]"),
        (b'{"choices": []}', "its 'choices' are empty, not a list of answers", '{"choices": []}'),
    ],
)
def test_a_reply_of_another_form_is_named_with_what_is_wrong_and_its_beginning(
    body: bytes, problem: str, beginning: str
) -> None:
    with replying(body) as url:
        model = Model(name="m", adapter="openai", source="m", digest="", model_kwargs={"url": url})
        adapter = OpenAIAdapter(model)
        with pytest.raises(CellFailure) as caught:
            adapter.load()
        adapter.unload()
    assert caught.value.kind == "bad_request"
    assert str(caught.value) == (
        f"the reply of {url} cannot be read: {problem}; is it a server of this protocol? "
        f"The reply begins with {beginning}"
    )


def test_a_model_that_the_server_lacks_is_named_with_a_near_one() -> None:
    with SimulatedServer() as server:
        url = server.url + "/v1"
        model = Model(
            name="m", adapter="openai", source="simulatd", digest="", model_kwargs={"url": url}
        )
        adapter = OpenAIAdapter(model)
        with pytest.raises(CellFailure, match="simulated") as caught:
            adapter.load()
        adapter.unload()
    assert caught.value.kind == "model_not_found"


def test_ollama_is_identified_by_the_digest_of_its_server() -> None:
    with SimulatedServer() as server:
        assert OllamaAdapter.identify("simulated", {"url": server.url}) == f"ollama:{DIGEST}"
        with pytest.raises(ValueError, match="ollama pull"):
            OllamaAdapter.identify("other", {"url": server.url})
    with pytest.raises(ValueError, match="start it"):
        OllamaAdapter.identify("simulated", {"url": server.url})


def collect(coming: Iterable[Any], got: list[Any]) -> None:
    for one in coming:
        got.append(one)


def test_answers_before_a_failure_are_given_and_nothing_is_sent_after_it() -> None:
    with SimulatedServer() as server, loaded(OpenAIAdapter, server) as adapter:
        first = len(server.requests)
        slow = Behaviour(first_s=0.3)
        server.script = deque([slow, slow, Behaviour(status=400), *[slow] * 17])
        got: list[Any] = []
        with pytest.raises(CellFailure, match="400"):
            collect(adapter.answer_each(PROMPTS, GREEDY), got)
        assert len(got) == 7
        assert len(server.requests) - first == 8
        assert all(a.text == adapter.answer([PROMPTS[n]], GREEDY)[0].text for n, a in got)


def test_a_slow_answer_holds_up_no_other() -> None:
    with SimulatedServer() as server, loaded(OpenAIAdapter, server) as adapter:
        server.script = deque([Behaviour(first_s=2.0)])
        order = [position for position, _ in adapter.answer_each(PROMPTS, GREEDY)]
    assert sorted(order) == list(range(20))
    assert order[-1] != 19
