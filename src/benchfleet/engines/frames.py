"""Frames between a runner and its slots: length-prefixed JSON with binary attachments.

A frame is two big-endian ``uint32``, the length and the CRC-32 of its head, then the head (a JSON
object), and then its attachments, whose lengths and CRC-32 the head names under ``"attached"``.
The JSON object has ``"type"``. Both ends speak `PROTOCOL`; a slot's ``hello`` carries it, and
another version is refused by name.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchfleet.errors import ProtocolError

PROTOCOL = 6
MAX_HEAD_BYTES = 64 * 2**20  # a larger head is noise, not a frame
MAX_ATTACHED_BYTES = 256 * 2**20  # over all attachments of one frame; files go in pieces
_PREFIX = struct.Struct(">II")  # length and CRC-32 of the head


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
        head["attached"] = [(len(part), zlib.crc32(part)) for part in attached]
    text = json.dumps(head, separators=(",", ":")).encode()
    if len(text) > MAX_HEAD_BYTES or sum(map(len, attached)) > MAX_ATTACHED_BYTES:
        raise ProtocolError(
            f"frame {type!r} is too large: {len(text)} bytes of fields ({MAX_HEAD_BYTES} at most), "
            f"{sum(map(len, attached))} of attachments ({MAX_ATTACHED_BYTES} at most)"
        )
    return b"".join((_PREFIX.pack(len(text), zlib.crc32(text)), text, *attached))


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
        # One, while its parts come: the head, and each part's length and CRC-32.
        self._heads: list[tuple[dict[str, Any], list[tuple[int, int]]]] = []

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes. Raises `ProtocolError` on what is no frame."""
        self._buffer += data
        while True:
            if not self._heads and not self._read_head():
                return
            head, attachments = self._heads[0]
            total = sum(length for length, _ in attachments)
            if len(self._buffer) < total:
                return
            parts, start = [], 0
            for length, crc in attachments:
                parts.append(bytes(self._buffer[start : start + length]))
                start += length
                if zlib.crc32(parts[-1]) != crc:
                    raise ProtocolError(f"a frame {head['type']!r} was damaged on its way")
            del self._buffer[:total]
            self._heads.clear()
            yield Frame(type=head.pop("type"), fields=head, attached=tuple(parts))

    def _read_head(self) -> bool:
        if len(self._buffer) < _PREFIX.size:
            return False
        length, crc = _PREFIX.unpack_from(self._buffer)
        if length > MAX_HEAD_BYTES:
            raise ProtocolError(f"a frame may not start with {bytes(self._buffer[:16])!r}")
        end = _PREFIX.size + length
        if len(self._buffer) < end:
            return False
        text = self._buffer[_PREFIX.size : end]
        if zlib.crc32(text) != crc:
            raise ProtocolError(f"a frame may not start with {bytes(self._buffer[:16])!r}")
        try:
            head = json.loads(text)
            attachments = [(int(length), int(crc)) for length, crc in head.pop("attached", [])]
            fits = (
                isinstance(head["type"], str)
                and sum(part for part, _ in attachments) <= MAX_ATTACHED_BYTES
            )
            if not fits or any(length < 0 for length, _ in attachments):
                raise ProtocolError("a frame's head is out of bounds")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ProtocolError(f"a frame's head cannot be read: {error}") from None
        del self._buffer[:end]
        self._heads.append((head, attachments))
        return True
