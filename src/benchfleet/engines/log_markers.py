"""Markers in what a slot prints, for what has no frames of its own.

What a remote slot prints arrives as one stream. In it a marker, ``NUL key word value NUL``, says
where the output of an attempt is over (``end <attempt>``). The supervisor of every slot writes
others there: whether the slot ``computes`` or ``waits``, and how it ended (``ended <wait status>
<cause>``). The key is the slot's own, so that nothing printed by accident is taken for a marker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MAX_MARKER_BYTES = 400


@dataclass(frozen=True, kw_only=True)
class Marker:
    """One marker of a stream."""

    word: str
    value: str


class MarkerParser:
    """Splits a stream, cut anywhere, into what was printed and the markers in it."""

    def __init__(self, key: str) -> None:
        self._start = f"\0{key} ".encode()
        self._pending = b""  # what may be the beginning of a marker

    def feed(self, data: bytes) -> Iterator[bytes | Marker]:
        """What was printed, in pieces, and the markers, in their order."""
        data = self._pending + data
        self._pending = b""
        while data:
            start = data.find(self._start)
            if start < 0:
                cut = len(data) - self._beginning(data)
                self._pending = data[cut:]
                if cut:
                    yield data[:cut]
                return
            if start:
                yield data[:start]
            data = data[start:]
            end = data.find(b"\0", 1)
            if end < 0 and len(data) < MAX_MARKER_BYTES:
                self._pending = data
                return
            if not 0 < end < MAX_MARKER_BYTES:
                yield data[:1]
                data = data[1:]
                continue
            text = data[len(self._start) : end].decode("ascii", "replace")
            word, _, value = text.partition(" ")
            yield Marker(word=word, value=value)
            data = data[end + 1 :]

    def rest(self) -> bytes:
        """What was held back, once nothing follows."""
        pending, self._pending = self._pending, b""
        return pending

    def _beginning(self, data: bytes) -> int:
        """How many of the last bytes may begin a marker."""
        longest = min(len(data), len(self._start) - 1)
        return next(
            (size for size in range(longest, 0, -1) if self._start.startswith(data[-size:])), 0
        )
