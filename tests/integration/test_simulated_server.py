"""The simulated server answers as its tests compute, and breaks as they ask."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections import deque
from typing import Any

import pytest

from benchfleet.testing.simulated_answers import answer_tokens
from benchfleet.testing.simulated_server import Behaviour, SimulatedServer

CHAT: dict[str, Any] = {
    "model": "simulated",
    "messages": [{"role": "user", "content": "a b"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}
ANSWER = answer_tokens("user: a b", 8)


def answered(server: SimulatedServer, path: str, body: dict[str, Any]) -> tuple[int, Any, bytes]:
    """Status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    with contextlib.closing(connection):
        connection.request("POST", path, json.dumps(body))
        with connection.getresponse() as reply:
            return reply.status, reply.headers, reply.read()


def ask(server: SimulatedServer, path: str, body: dict[str, Any]) -> bytes:
    return answered(server, path, body)[2]


def events(raw: bytes) -> list[dict[str, Any]]:
    lines = [line.removeprefix(b"data: ") for line in raw.splitlines() if line]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def test_a_chat_streams_an_empty_role_chunk_known_tokens_and_usage() -> None:
    with SimulatedServer() as server:
        raw = ask(server, "/v1/chat/completions", CHAT)
    role, *chunks, last, usage = events(raw)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [chunk["choices"][0]["delta"]["content"] for chunk in chunks] == ANSWER
    assert last["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"]["completion_tokens"] == 8
    assert raw.endswith(b"data: [DONE]\n\n")


def test_ollama_streams_lines_and_a_last_object_with_counts() -> None:
    body = {"model": "simulated", "prompt": "x", "options": {"num_predict": 3}}
    with SimulatedServer() as server:
        lines = [json.loads(line) for line in ask(server, "/api/generate", body).splitlines()]
    assert [line["response"] for line in lines[:-1]] == answer_tokens("x", 3)
    assert lines[-1]["done_reason"] == "length"
    assert lines[-1]["eval_count"] == 3


@pytest.mark.parametrize("fault", ["no_last_object", "error_in_stream"])
def test_a_stream_can_end_without_its_last_object(fault: Any) -> None:
    with SimulatedServer(script=deque([Behaviour(fault=fault)])) as server:
        seen = ask(server, "/v1/chat/completions", CHAT)
    assert b"[DONE]" not in seen
    assert (b'"error"' in seen) == (fault == "error_in_stream")


@pytest.mark.parametrize(
    ("fault", "errors"),
    [
        ("dropped", http.client.IncompleteRead),
        ("reset", (http.client.RemoteDisconnected, ConnectionResetError)),
    ],
)
def test_a_connection_can_break(fault: Any, errors: Any) -> None:
    with (
        SimulatedServer(script=deque([Behaviour(fault=fault)])) as server,
        pytest.raises(errors),
    ):
        ask(server, "/v1/chat/completions", CHAT)


@pytest.mark.parametrize(
    ("settings", "body", "status"),
    [
        ({"script": deque([Behaviour(status=503)])}, CHAT, 503),
        ({"script": deque([Behaviour(status=429, retry_after="1")])}, CHAT, 429),
        ({"key": "secret-key"}, CHAT, 401),
        ({}, {**CHAT, "model": "other"}, 404),
    ],
)
def test_a_request_can_be_refused(
    settings: dict[str, Any], body: dict[str, Any], status: int
) -> None:
    with SimulatedServer(**settings) as server:
        seen, headers, _ = answered(server, "/v1/chat/completions", body)
    assert seen == status
    assert headers["Retry-After"] == ("1" if status == 429 else None)
