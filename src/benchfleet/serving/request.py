"""One request of a load test: its five times, its counts, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from benchfleet.serving.journal import Entry
from benchfleet.serving.stream import error_message, read_stream

_NS_PER_US = 1000


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request that ended. Times are nanoseconds since its segment began."""

    n: int  # its index in the schedule
    scheduled: int  # when it was due; in a closed loop, when its stream was free
    sent: int
    first: int | None = None  # the first piece with content or reasoning
    last: int | None = None  # the last such piece: here end-to-end latency ends
    end: int  # of the body, or when it failed
    tokens: int | None = None  # of the answer; None: nobody counted
    prompt_tokens: int | None = None
    token_source: str = ""  # usage: the server's count; tokenizer; "" without a count
    error: str = ""  # the kind; "" for none
    message: str = ""  # of the error
    finish: str = ""  # stop, length, …
    status: int = 200  # 0: no answer at all
    bytes: int = 0
    pieces: tuple[int, ...] = ()  # times of the pieces with content, µs after it was sent
    lines: tuple[int, ...] = ()  # lines with content in each of these
    segment: int = 0  # of a cell that was interrupted, each part has one
    text: str = ""

    @property
    def ok(self) -> bool:
        """Whether the answer is whole."""
        return not self.error

    @property
    def ttft(self) -> int | None:
        """ns from `sent` to the first content."""
        return None if self.first is None else self.first - self.sent

    @property
    def ttft_scheduled(self) -> int | None:
        """ns from `scheduled` to the first content."""
        return None if self.first is None else self.first - self.scheduled

    @property
    def e2e(self) -> int | None:
        """ns from `sent` to the last content."""
        return None if self.last is None else self.last - self.sent

    @property
    def e2e_scheduled(self) -> int | None:
        """ns from `scheduled` to the last content."""
        return None if self.last is None else self.last - self.scheduled

    @property
    def tpot(self) -> float | None:
        """ns for each token after the first: (last − first) / (tokens − 1); None for one token."""
        if self.first is None or self.last is None or not self.tokens or self.tokens < 2:
            return None
        return (self.last - self.first) / (self.tokens - 1)

    @property
    def gaps(self) -> list[int]:
        """µs between two pieces with content."""
        return [after - before for before, after in pairwise(self.pieces)]

    def to_dict(self) -> dict[str, Any]:
        """JSON values only; what has its default is left out, and the text."""
        values: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name != "text" and value != one.default:
                values[one.name] = list(value) if isinstance(value, tuple) else value
        return values

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Request:
        """What `to_dict` made."""
        values = {one.name: value[one.name] for one in fields(cls) if one.name in value}
        for name in ("pieces", "lines"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)

    @classmethod
    def from_entry(cls, entry: Entry, *, ndjson: bool, segment: int = 0) -> Request:
        """From a journal's entry: here the bytes are parsed."""
        raw = entry.fields
        common: dict[str, Any] = {
            **{name: raw[name] for name in ("n", "scheduled", "sent", "end", "status")},
            "bytes": sum(map(len, entry.pieces)),
            "segment": segment,
        }
        if raw["status"] != 200:
            kind = raw.get("error") or f"http_{raw['status']}"
            message = raw.get("message") or _refusal(b"".join(entry.pieces))
            return cls(error=kind, message=message, **common)
        content = read_stream(entry.pieces, ndjson=ndjson)
        error, message = content.error, content.message
        if raw.get("error"):  # a body that was cut is a failure, whatever was seen
            error, message = raw["error"], raw.get("message", "")
        times = tuple(int(raw["times"][piece]) for piece in content.pieces)
        begin = int(raw["sent"])
        return cls(
            first=begin + times[0] * _NS_PER_US if times else None,
            last=begin + times[-1] * _NS_PER_US if times else None,
            tokens=content.tokens,
            prompt_tokens=content.prompt_tokens,
            token_source="" if content.tokens is None else "usage",
            error=error,
            message=message,
            finish=content.finish,
            pieces=times,
            lines=tuple(content.lines),
            text=content.text,
            **common,
        )


def _refusal(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    try:
        return error_message(json.loads(text))
    except ValueError:
        return " ".join(text.split())[:300]
