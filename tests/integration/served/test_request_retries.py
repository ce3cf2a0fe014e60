"""Requests to a served model that fail: which are sent again, and what the others are called."""

from __future__ import annotations

from collections import deque

import pytest

from benchfleet.errors import CellFailure
from benchfleet.models.served.client import Client
from benchfleet.models.served.endpoint import Endpoint
from benchfleet.models.served.openai import OpenAIAdapter
from benchfleet.testing.simulated_answers import answer_tokens
from benchfleet.testing.simulated_server import Behaviour, SimulatedServer

from .adapters import GREEDY, PROMPTS, loaded


@pytest.mark.parametrize(
    "trouble",
    [
        Behaviour(status=503),
        Behaviour(status=502),
        Behaviour(status=429, retry_after="0"),
        Behaviour(fault="reset"),
        Behaviour(fault="aborted"),
        Behaviour(fault="cut"),
    ],
)
def test_a_request_that_fails_for_a_moment_is_sent_again(trouble: Behaviour) -> None:
    with SimulatedServer() as server, loaded(OpenAIAdapter, server) as adapter:
        server.script = deque([trouble, trouble])
        (answer,) = adapter.answer(PROMPTS[:1], GREEDY)
    assert answer.text == "".join(answer_tokens(f"user: {PROMPTS[0].text}", 4))
    assert len(server.requests) == 2 + 3  # two as it was loaded


@pytest.mark.parametrize(
    ("trouble", "kind", "requests"),
    [
        (Behaviour(status=503), "server_unavailable", 5),
        (Behaviour(status=500), "server_unavailable", 2),
        (Behaviour(fault="aborted"), "server_unavailable", 5),
        (Behaviour(fault="cut"), "server_unavailable", 5),
        (Behaviour(status=429, retry_after="0"), "rate_limited", 5),
        (Behaviour(status=429, code="insufficient_quota"), "rate_limited", 1),
        (Behaviour(status=429, retry_after="3600"), "rate_limited", 1),
        (Behaviour(status=400), "bad_request", 1),
        (Behaviour(status=500, code="chat_template is not set"), "bad_request", 1),
    ],
)
def test_retries_are_bounded_and_the_failure_is_named(
    trouble: Behaviour, kind: str, requests: int
) -> None:
    with SimulatedServer(otherwise=trouble) as server:
        endpoint = Endpoint(url=server.url + "/v1")
        client = Client(endpoint, uniform=lambda low, high: 0.0)
        with pytest.raises(CellFailure) as caught:
            list(client.post_each("/chat/completions", [{"model": server.model, "messages": []}]))
        client.close()
    assert caught.value.kind == kind
    assert caught.value.retry_after_s == (3600 if trouble.retry_after == "3600" else 0)
    assert len(server.requests) == requests


@pytest.mark.parametrize("answered", [True, False])
def test_a_chat_template_is_suspected_only_before_the_first_answer(answered: bool) -> None:
    with SimulatedServer() as server, loaded(OpenAIAdapter, server) as adapter:
        assert isinstance(adapter, OpenAIAdapter)
        if not answered and adapter._client:
            adapter._client.answered = 0  # it was, by loading it
        server.otherwise = Behaviour(status=500)
        with pytest.raises(CellFailure) as caught:
            adapter.answer(PROMPTS[1:2], GREEDY)
        explained = adapter.explain(caught.value, "benchmark")
    assert ("set api: completions" in str(explained)) is not answered


def test_429s_leave_fewer_requests_at_a_time() -> None:
    with SimulatedServer() as server:
        server.script = deque([Behaviour(status=429, retry_after="0")])
        client = Client(Endpoint(url=server.url + "/v1", requests_at_once=8))
        list(client.post_each("/chat/completions", [{"model": server.model, "messages": []}]))
        client.close()
    assert client.limit.now == 4
