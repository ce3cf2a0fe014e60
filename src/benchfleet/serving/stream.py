"""A streamed answer: pieces of bytes, as they were read, to text, counts and errors.

A stream is complete with ``[DONE]``, with ``"done": true``, or with a finish reason and a clean end
of its body: `transformers serve` never sends ``[DONE]``. Anything else is a failed request, and so
is an error object in it. Tokens come from the server's own count, never from the number of chunks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_MESSAGE_CHARACTERS = 300  # of a server's error
_DONE = b"[DONE]"


@dataclass(kw_only=True)
class StreamContent:
    """What a stream said."""

    text: str = ""
    finish: str = ""  # stop, length, …
    tokens: int | None = None  # of the answer, by the server's count; None without one
    prompt_tokens: int | None = None
    error: str = ""  # the kind: error_in_stream, malformed, incomplete; "" for none
    message: str = ""  # of the error
    pieces: list[int] = field(default_factory=list)  # those with content, by their position
    lines: list[int] = field(default_factory=list)  # lines with content in each of these
    is_done: bool = False  # whether its last object came


def split_lines(pieces: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Each line with the position of the piece that completed it. A line may span pieces, may end
    in CRLF, and the last one may lack its end."""
    rest = b""
    for position, piece in enumerate(pieces):
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield position, line.rstrip(b"\r")
    if rest:
        yield len(pieces) - 1, rest.rstrip(b"\r")


def read_stream(pieces: Sequence[bytes], *, ndjson: bool) -> StreamContent:
    """The content of a stream whose body ended cleanly: server-sent events, or a JSON a line."""
    content = StreamContent()
    texts: list[str] = []
    first = b""  # of what was sent: an event, or another body
    for position, line in split_lines(pieces):
        payload = line.strip() if ndjson else _event_data(line)
        if not payload:
            continue
        first = first or payload
        if payload == _DONE:
            content.is_done = True
            continue
        try:
            value = json.loads(payload)
        except ValueError:
            value = None
        if isinstance(value, dict) and value.get("error"):
            content.error, content.message = "error_in_stream", error_message(value)
            continue
        try:
            text = _take(content, value, ndjson=ndjson)
        except (AttributeError, TypeError):  # another object than the protocol's, or none
            content.error = content.error or "malformed"
            content.message = content.message or _beginning(payload)
            continue
        if text:
            texts.append(text)
            _count(content, position)
    content.text = "".join(texts)
    if not content.error and (missing := _missing(content, first, pieces, ndjson)):
        content.error, content.message = "incomplete", missing
    return content


def _missing(content: StreamContent, first: bytes, pieces: Sequence[bytes], ndjson: bool) -> str:
    """What a stream lacks to be whole, with the beginning of what came instead; ``""`` if nothing.
    `first` is its first event."""
    if not first and (body := b"".join(pieces).strip()):
        return f"the reply is no stream of events: {_beginning(body)}"
    if not (content.is_done or (content.finish and not ndjson)):
        return "the stream ended without its last object"
    if not (content.text or content.finish or ndjson):
        return f"the stream has no answer: {_beginning(first)}"
    return ""


def _beginning(data: bytes) -> str:
    """The first part of what a server sent, in one line."""
    return " ".join(data.decode("utf-8", "replace").split())[:MAX_MESSAGE_CHARACTERS]


def error_message(value: Any) -> str:
    """The message of an error object, in any of the forms that servers use, with its code."""
    code = None
    if isinstance(value, Mapping):
        value = value.get("error") or value.get("detail") or value.get("message") or dict(value)
    if isinstance(value, Mapping):
        code = value.get("code") if value.get("message") else None
        value = value.get("message") or dict(value)
    text = value if isinstance(value, str) else json.dumps(value)
    text = " ".join(text.split())[:MAX_MESSAGE_CHARACTERS]
    return f"{text} ({code})" if isinstance(code, str) and code else text


def _event_data(line: bytes) -> bytes:
    """The data of a line of server-sent events; empty for comments and other fields."""
    return line[5:].strip() if line.startswith(b"data:") else b""


def _count(content: StreamContent, position: int) -> None:
    if content.pieces and content.pieces[-1] == position:
        content.lines[-1] += 1
    else:
        content.pieces.append(position)
        content.lines.append(1)


def _number_of(counts: Mapping[str, Any], name: str, default: int | None) -> int | None:
    """A count, or the default if there is none. Raises TypeError for what is no whole number."""
    if (count := counts.get(name)) is None:
        return default
    if type(count) is not int:
        raise TypeError(f"{name} is {count!r}")
    return count


def _take(content: StreamContent, value: Mapping[str, Any], *, ndjson: bool) -> str:
    """Keep what an object says; its text, which may be reasoning. Raises AttributeError or
    TypeError for what is no object of the protocol."""
    if ndjson:
        if value.get("done"):
            content.is_done = True
            content.finish = str(value.get("done_reason") or "")
            content.tokens = _number_of(value, "eval_count", content.tokens)
            content.prompt_tokens = _number_of(value, "prompt_eval_count", content.prompt_tokens)
        message = value.get("message") or value
        parts = [message.get("thinking"), message.get("content"), value.get("response")]
        return "".join(part for part in parts if isinstance(part, str))
    if usage := value.get("usage"):
        content.tokens = _number_of(usage, "completion_tokens", content.tokens)
        content.prompt_tokens = _number_of(usage, "prompt_tokens", content.prompt_tokens)
    parts = []
    for choice in value.get("choices") or ():
        content.finish = str(choice.get("finish_reason") or content.finish)
        delta = choice.get("delta") or {}
        parts += [delta.get("reasoning_content"), delta.get("reasoning")]
        parts += [delta.get("content"), choice.get("text")]
    return "".join(part for part in parts if isinstance(part, str))
