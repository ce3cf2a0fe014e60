"""What a server can do, asked once at load: a feature is there if an answer has it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from benchfleet.models.base import Prompt
from benchfleet.models.served.protocol import OpenAI, Protocol, has_logprobs
from benchfleet.models.served.refusals import RefusedRequest

if TYPE_CHECKING:
    from benchfleet.models.served.client import Client

# The tokens asked for. A model that answers this in one word shows whether `ignore_eos` works.
_TOKENS, _PROMPT = 8, Prompt(context="Answer with one word: yes or no?")
_REFUSALS = frozenset({400, 404, 405, 415, 422, 500, 501})  # of a request that has an odd field


def probe_abilities(client: Client, wire: Protocol) -> dict[str, bool]:
    """Whether the server gives log-probabilities of answers and prompts, ends streams with
    ``[DONE]``, and obeys ``ignore_eos``. Raises CellFailure if it fails for another reason.

    The server gets two or three short requests. Ollama's protocol has none of these, and is not
    asked.
    """
    if not isinstance(wire, OpenAI):
        return dict.fromkeys(("logprobs", "prompt_logprobs", "ignore_eos", "done"), False)
    body = wire.body(_PROMPT, {"max_new_tokens": _TOKENS}, stream=True)
    logprobs = {"logprobs": True if wire.api == "chat" else 1}
    answer = _try_each(client, wire, [{**logprobs, "ignore_eos": True}, logprobs, {}], body)
    added, chunks = answer
    abilities = {
        "logprobs": "logprobs" in added and any(map(has_logprobs, chunks)),
        "prompt_logprobs": False,
        "ignore_eos": "ignore_eos" in added and _answered_all(chunks),
        "done": _DONE in chunks,
    }
    if wire.api == "completions":
        echo = {"max_new_tokens": 1}
        more = {"echo": True, "logprobs": 1}
        added, chunks = _try_each(client, wire, [more, {}], wire.body(_PROMPT, echo))
        abilities["prompt_logprobs"] = "echo" in added and _echoes(chunks)
    return abilities


_DONE: Mapping[str, Any] = {"done": "[DONE]"}


def _try_each(
    client: Client, wire: Protocol, additions: list[dict[str, Any]], body: Mapping[str, Any]
) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """The fields of the first request that is not refused, and the objects of its stream."""
    for added in additions:
        try:
            text = client.post_text(wire.path, {**body, **added})
        except RefusedRequest as error:
            if error.status not in _REFUSALS:
                raise
        else:
            return added, list(_objects(text))
    return {}, []


def _objects(stream: str) -> Iterator[Mapping[str, Any]]:
    """The objects of a stream of events, or one object; the last may be `_DONE`."""
    if stream.lstrip().startswith("{"):
        yield json.loads(stream)
        return
    for line in stream.split("\n"):  # a text may hold other ends of lines
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        if data == "[DONE]":
            yield _DONE
            continue
        try:
            value = json.loads(data or "null")
        except ValueError:
            continue
        if isinstance(value, Mapping):
            yield value


def _choices(chunks: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for chunk in chunks:
        yield from (one for one in chunk.get("choices") or () if isinstance(one, Mapping))


def _answered_all(chunks: list[Mapping[str, Any]]) -> bool:
    """Whether the answer has all tokens that were asked for."""
    counts = [chunk["usage"].get("completion_tokens") for chunk in chunks if chunk.get("usage")]
    finishes = [one["finish_reason"] for one in _choices(chunks) if one.get("finish_reason")]
    return finishes == ["length"] and (not counts or counts[-1] == _TOKENS)


def _echoes(chunks: list[Mapping[str, Any]]) -> bool:
    """Whether more tokens have log-probabilities than the one that was answered."""
    lists = ((one.get("logprobs") or {}).get("token_logprobs") or () for one in _choices(chunks))
    return sum(map(len, lists)) > 1
