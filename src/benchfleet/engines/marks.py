"""Marks that a slot sets into what it prints, where that comes over the same line as all else.

What a slot on another machine prints arrives as one stream. A mark, ``NUL key word value NUL``,
says in that stream where the output of an attempt is over (``end <attempt>``), that nothing is
left of all that the slot started (``alone``), and how it ended itself (``ended <wait status>``).
The key is the slot's own, so that nothing printed by accident is taken for a mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_LONGEST = 400  # bytes; a longer one is no mark


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One mark of a stream."""

    word: str
    value: str


class Marks:
    """Splits a stream, cut anywhere, into what was printed and the marks in it."""

    def __init__(self, key: str) -> None:
        self._start = f"\0{key} ".encode()
        self._held = b""  # what may be the beginning of a mark

    def feed(self, data: bytes) -> Iterator[bytes | Mark]:
        """What was printed, in pieces, and the marks, in their order."""
        data = self._held + data
        self._held = b""
        while data:
            start = data.find(self._start)
            if start < 0:
                kept = self._beginning(data)
                self._held = data[len(data) - kept :]
                if printed := data[: len(data) - kept]:
                    yield printed
                return
            if start:
                yield data[:start]
            data = data[start:]
            end = data.find(b"\0", 1)
            if end < 0 and len(data) < _LONGEST:
                self._held = data
                return
            if not 0 < end < _LONGEST:
                yield data[:1]
                data = data[1:]
                continue
            text = data[len(self._start) : end].decode("ascii", "replace")
            word, _, value = text.partition(" ")
            yield Mark(word=word, value=value)
            data = data[end + 1 :]

    def rest(self) -> bytes:
        """What was held back, once nothing follows."""
        held, self._held = self._held, b""
        return held

    def _beginning(self, data: bytes) -> int:
        """How many of the last bytes may begin a mark."""
        longest = min(len(data), len(self._start) - 1)
        return next(
            (size for size in range(longest, 0, -1) if self._start.startswith(data[-size:])), 0
        )
