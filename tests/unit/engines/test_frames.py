"""Frames survive any cutting of the stream, and noise is refused."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchfleet.engines.frames import (
    MAX_ATTACHED_BYTES,
    MAX_HEAD_BYTES,
    Decoder,
    Frame,
    encode,
    whole_lines,
)
from benchfleet.errors import ProtocolError

_FIELDS = st.dictionaries(
    st.text(min_size=1).filter(lambda name: name not in {"type", "attached"}),
    st.one_of(st.integers(), st.text(), st.booleans(), st.none()),
    max_size=4,
)


def _head(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + zlib.crc32(text).to_bytes(4, "big") + text


@given(
    frames=st.lists(st.tuples(_FIELDS, st.lists(st.binary(max_size=50), max_size=3)), max_size=5),
    cut=st.integers(min_value=1, max_value=40),
)
def test_any_frames_cut_anywhere_arrive_as_they_were_sent(
    frames: list[tuple[dict[str, object], list[bytes]]], cut: int
) -> None:
    stream = b"".join(encode("x", parts, **fields) for fields, parts in frames)
    decoder = Decoder()
    found: list[Frame] = []
    for start in range(0, len(stream), cut):
        found += decoder.feed(stream[start : start + cut])
    wanted = [Frame(type="x", fields=fields, attached=tuple(parts)) for fields, parts in frames]
    assert found == wanted


@pytest.mark.parametrize(
    "noise",
    [
        b"Traceback (most recent call last):\n",
        (MAX_HEAD_BYTES + 1).to_bytes(4, "big") + bytes(4),
        _head(b"[]"),
        _head(b"{}"),
        _head(b"{x}"),
        _head(b"\xff"),
        _head(b'{"type":"x","attached":[[-1,3]]}'),
        _head(b'{"type":"x","attached":[[1e15,"a"]]}'),
        _head(b'{"type":"x","attached":[3]}'),
        _head(b'{"type":7,"attached":[[1,2]]}'),
    ],
)
def test_what_is_no_frame_is_refused(noise: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(Decoder().feed(noise))


@pytest.mark.parametrize("place", [10, -1])
def test_one_byte_that_changed_on_the_way_is_noticed(place: int) -> None:
    stream = bytearray(encode("x", (b"attached",), field="value"))
    stream[place] ^= 1
    with pytest.raises(ProtocolError):
        list(Decoder().feed(bytes(stream)))


def test_what_a_decoder_would_refuse_is_not_encoded() -> None:
    half = bytes(MAX_ATTACHED_BYTES // 2 + 1)
    with pytest.raises(ProtocolError, match=r"frame 'x' is too large"):
        encode("x", (half, half))
    with pytest.raises(ProtocolError, match=r"frame 'x' is too large"):
        encode("x", text="x" * MAX_HEAD_BYTES)


@given(data=st.binary(max_size=200), size=st.integers(min_value=1, max_value=50))
def test_pieces_of_whole_lines_make_up_the_text(data: bytes, size: int) -> None:
    pieces = list(whole_lines(data, size))
    assert b"".join(pieces) == data
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])
    assert all(piece.find(b"\n", size - 1) in (-1, len(piece) - 1) for piece in pieces)
