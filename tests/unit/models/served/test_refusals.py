"""HTTP statuses and bodies as named failures."""

from __future__ import annotations

import json

import pytest

from benchfleet.models.served.protocol import OpenAI
from benchfleet.models.served.refusals import is_cut_off, is_quota_spent, refusal, retry_after_s


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "bad_request", False),
        (401, "wrong_key", False),
        (403, "wrong_key", False),
        (404, "model_not_found", False),
        (422, "bad_request", False),
        (429, "rate_limited", True),
        (500, "server_unavailable", True),
        (503, "server_unavailable", True),
        (529, "server_unavailable", True),
    ],
)
def test_each_status_has_a_kind(status: int, kind: str, retryable: bool) -> None:
    failure = refusal(status, "", where="http://x")
    assert (failure.kind, failure.is_retryable) == (kind, retryable)
    assert str(failure) == f"http://x answered HTTP {status}"


@pytest.mark.parametrize(
    "body",
    [
        '{"error": {"message": "too long"}}',
        '{"error": "too long"}',
        '{"detail": "too long"}',
        "too  long",
    ],
)
def test_every_form_of_message_is_read(body: str) -> None:
    assert str(refusal(400, body, where="w")) == "w answered HTTP 400: too long"


def test_a_spent_quota_is_not_retried() -> None:
    error = {"message": "no money", "code": 429, "type": "insufficient_quota"}
    body = json.dumps({"error": error})
    assert is_quota_spent(body)
    for status in (429, 403):
        failure = refusal(status, body, where="w")
        assert (failure.kind, failure.is_retryable) == ("rate_limited", False)
        assert str(failure) == (
            f"w answered HTTP {status}: no money; the quota of the account is spent"
        )
    assert not is_quota_spent('{"error": {"message": "too many requests"}}')


def test_retry_after_is_seconds_or_a_date() -> None:
    assert retry_after_s("2.5") == 2.5
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert retry_after_s("soon") is None
    assert retry_after_s(None) is None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, "tokenizer.chat_template is not set and no template argument was passed!"),
        (400, "default chat template is no longer allowed, so you must provide a chat template"),
    ],
)
def test_a_missing_chat_template_is_not_retried_and_has_advice(status: int, body: str) -> None:
    """In the words of transformers and of vLLM."""
    failure = refusal(status, body, where="w")
    assert not failure.is_retryable
    advice = OpenAI("m", {}).advice(status, "http://h/v1", str(failure))
    assert "set api: completions" in advice


def test_a_prompt_that_is_too_long_has_advice() -> None:
    failure = refusal(400, "This model's maximum context length is 4096 tokens.", where="w")
    assert "fewer max_new_tokens" in OpenAI("m", {}).advice(400, "http://h/v1", str(failure))


def test_a_reply_is_cut_off_wherever_its_json_ends_too_early() -> None:
    reply = {"text": 'a \u2028 " {b}', "numbers": [-1.5e-7, 12], "flags": [False, None, True, {}]}
    for ascii_only in (True, False):
        whole = json.dumps(reply, ensure_ascii=ascii_only)
        assert all(is_cut_off(whole[:end]) for end in range(1, len(whole)))
        assert not is_cut_off(whole)
    pretty = json.dumps(reply, indent=2)
    assert all(is_cut_off(pretty[:end] + "\n") for end in range(1, len(pretty)))


@pytest.mark.parametrize(
    "whole",
    [
        "",
        "not found",
        "<html><body>hello {</body></html>",
        "{'choices': [{'text': 'of Python'}], 'id': 5}",
        '{"a": 1}\n{"b": 2}',
        '{"a": 1}}',
        'data: {"a": 1}\n\ndata: {"b"',
    ],
)
def test_another_text_is_not_cut_off(whole: str) -> None:
    assert not is_cut_off(whole)
