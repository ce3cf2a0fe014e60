"""The bodies of requests, and the answers in replies."""

from __future__ import annotations

import re
from typing import Any

import pytest

from benchfleet.models.base import Prompt
from benchfleet.models.served.protocol import Ollama, OpenAI

PROMPT = Prompt(context="A text. ", question="What?")
GENERATION = {"max_new_tokens": 5, "temperature": 0.5, "seed": 7, "stop": ["\n"], "top_k": 0}


def test_openai_chat_sends_roles_stops_and_seed() -> None:
    body = OpenAI("m", {"system": "Be brief.", "body": {"user": "x"}}).body(PROMPT, GENERATION)
    assert body == {
        "model": "m",
        "max_tokens": 5,
        "temperature": 0.5,
        "seed": 7,
        "stop": ["\n"],
        "stream": False,
        "user": "x",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "A text. What?"},
        ],
    }


def test_messages_of_a_prompt_keep_their_roles() -> None:
    prompt = Prompt(messages=(("user", "a"), ("assistant", "b"), ("user", "c")))
    roles = [one["role"] for one in OpenAI("m", {}).body(prompt, {})["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_openai_completions_send_the_text_as_it_is() -> None:
    wire = OpenAI("m", {"api": "completions", "logprobs": True})
    body = wire.body(PROMPT, {}, stream=True)
    assert wire.path == "/completions"
    assert body["prompt"] == "A text. What?"
    assert body["logprobs"] == 1
    assert body["stream_options"] == {"include_usage": True}


def test_ollama_pins_the_context_and_cuts_nothing() -> None:
    wire = Ollama("m", {"api": "completions", "num_ctx": 512})
    body = wire.body(PROMPT, {**GENERATION, "stop": "\n", "repetition_penalty": 1.1})
    assert (body["raw"], body["truncate"], body["shift"]) == (True, False, False)
    options = {"num_ctx": 512, "num_predict": 5, "temperature": 0.5, "seed": 7, "top_k": 0}
    assert body["options"] == {**options, "stop": ["\n"], "repeat_penalty": 1.1}


def test_a_reply_has_the_finish_the_server_s_counts_and_a_mean_logprob() -> None:
    reply = OpenAI("m", {}).reply(
        {
            "choices": [
                {
                    "message": {"content": "yes"},
                    "finish_reason": "length",
                    "logprobs": {"content": [{"logprob": -1.0}, {"logprob": -3.0}]},
                }
            ],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2},
        }
    )
    assert (reply.text, reply.finish, reply.logprob) == ("yes", "length", -2.0)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.counted) == (3, 2, True)


CHOICE = {"message": {"content": "hi"}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("api", "value", "problem"),
    [
        ("chat", [1, 2], "it is a list, not an object"),
        ("chat", None, "it is null, not an object"),
        ("chat", {"id": "x"}, "it has no 'choices'"),
        ("chat", {"choices": []}, "its 'choices' are empty, not a list of answers"),
        ("chat", {"choices": ["x"]}, "its first choice is a text, not an object"),
        ("chat", {"choices": [{"text": "x"}]}, "its first choice has no 'message'"),
        ("chat", {"choices": [{"message": {"role": "x"}}]}, "its message has no 'content'"),
        ("completions", {"choices": [CHOICE]}, "its first choice has no 'text'"),
        (
            "chat",
            {"choices": [CHOICE], "usage": {"prompt_tokens": "x", "completion_tokens": None}},
            "its 'prompt_tokens' is 'x', not a number",
        ),
        ("chat", {"choices": [CHOICE], "usage": [1]}, "its 'usage' is a list, not an object"),
        ("chat", {"choices": [{**CHOICE, "logprobs": 3}]}, "its 'logprobs' have another form"),
    ],
)
def test_what_is_wrong_with_another_reply_is_named(api: str, value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        OpenAI("m", {"api": api}).reply(value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"response": "x"}, "it has no 'done'"),
        ({"done": True}, "its message has no 'content'"),
        ({"done": True, "message": "x"}, "its message is a text, not an object"),
        (
            {"done": True, "message": {"content": "x"}, "eval_count": "many"},
            "its 'eval_count' is 'many', not a number",
        ),
    ],
)
def test_what_is_wrong_with_another_reply_of_ollama_is_named(value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        Ollama("m", {"num_ctx": 1}).reply(value)


def test_a_reply_of_ollama_that_is_not_done_is_refused() -> None:
    value = {"message": {"content": "yes"}, "done": False}
    with pytest.raises(ValueError, match="not whole"):
        Ollama("m", {"num_ctx": 1}).reply(value)
    reply = Ollama("m", {"num_ctx": 1}).reply({**value, "done": True, "done_reason": "stop"})
    assert (reply.text, reply.finish, reply.counted) == ("yes", "stop", False)


@pytest.mark.parametrize(
    ("protocol", "api", "status", "url", "advice"),
    [
        (OpenAI, "chat", 500, "http://h/v1", "set api: completions"),
        (OpenAI, "completions", 500, "http://h/v1", ""),
        (OpenAI, "chat", 404, "http://h", "does not end in /v1"),
        (OpenAI, "chat", 404, "http://h/v1", ""),
        (Ollama, "chat", 404, "http://h", ""),
    ],
)
def test_a_refusal_with_a_known_cause_has_advice(
    protocol: type[OpenAI] | type[Ollama], api: str, status: int, url: str, advice: str
) -> None:
    text = protocol("m", {"api": api}).advice(status, url)
    assert advice in text if advice else text == ""
