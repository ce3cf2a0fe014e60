"""Frames between a runner and its slots: length-prefixed JSON with binary attachments.

A frame is a big-endian ``uint32`` with the length of its head, the head (a JSON object), and
then its attachments, whose lengths the head names under ``"attached"``. The JSON object has
``"type"``. Both ends speak `PROTOCOL`; a slot's ``hello`` carries it, and another version is
refused by name.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchfleet.errors import ProtocolError

PROTOCOL = 2
MAX_HEAD = 64 * 2**20  # bytes; a larger head is noise, not a frame
MAX_ATTACHED = 256 * 2**20  # bytes over all attachments of one frame; files go in pieces
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One message: a type, its fields, its attachments."""

    type: str
    fields: dict[str, Any] = field(default_factory=dict)
    attached: tuple[bytes, ...] = ()


def encode(type: str, attached: Sequence[bytes] = (), **fields: Any) -> bytes:
    """The bytes of one frame. Raises `ProtocolError` where a `Decoder` would refuse it."""
    head: dict[str, Any] = {"type": type, **fields}
    if attached:
        head["attached"] = [len(part) for part in attached]
    text = json.dumps(head, separators=(",", ":")).encode()
    if len(text) > MAX_HEAD or sum(map(len, attached)) > MAX_ATTACHED:
        raise ProtocolError(
            f"frame {type!r} is too large: {len(text)} bytes of fields ({MAX_HEAD} at most), "
            f"{sum(map(len, attached))} of attachments ({MAX_ATTACHED} at most)"
        )
    return b"".join((_LENGTH.pack(len(text)), text, *attached))


def whole_lines(data: bytes, size: int) -> Iterator[bytes]:
    """Pieces of `data` that end where a line ends: about `size` bytes, or one longer line."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + size - 1) + 1 or len(data)
        yield data[start:end]
        start = end


class Decoder:
    """Turns a stream of bytes, cut anywhere, into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._heads: list[tuple[dict[str, Any], list[int]]] = []  # one, while its parts come

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes. Raises `ProtocolError` on what is no frame."""
        self._buffer += data
        while True:
            if not self._heads and not self._read_head():
                return
            head, wanted = self._heads[0]
            total = sum(wanted)
            if len(self._buffer) < total:
                return
            parts, start = [], 0
            for length in wanted:
                parts.append(bytes(self._buffer[start : start + length]))
                start += length
            del self._buffer[:total]
            self._heads.clear()
            yield Frame(type=head.pop("type"), fields=head, attached=tuple(parts))

    def _read_head(self) -> bool:
        if len(self._buffer) < _LENGTH.size:
            return False
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > MAX_HEAD:
            raise ProtocolError(f"a frame may not start with {bytes(self._buffer[:16])!r}")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return False
        try:
            head = json.loads(self._buffer[_LENGTH.size : end])
            wanted = head.pop("attached", [])
            fits = isinstance(head["type"], str) and 0 <= sum(wanted) <= MAX_ATTACHED
            if not fits or any(part < 0 for part in wanted):
                raise ProtocolError("a frame's head is out of bounds")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ProtocolError(f"a frame's head cannot be read: {error}") from None
        del self._buffer[:end]
        self._heads.append((head, wanted))
        return True
