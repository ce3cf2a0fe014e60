"""Markers are found wherever the stream is cut, and nothing printed is lost or taken for one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchfleet.engines.log_markers import Marker, MarkerParser

_PRINTED = st.one_of(st.binary(max_size=30), st.sampled_from([b"\0", b"\0k", b"\0key", b"\0\0key"]))
_MARKS = st.builds(
    Marker, word=st.sampled_from(["end", "ended"]), value=st.from_regex(r"\A\w{0,9}\Z")
)


@given(parts=st.lists(st.one_of(_PRINTED, _MARKS), max_size=8), cut=st.integers(1, 12))
def test_any_stream_cut_anywhere_gives_back_what_was_put_in(
    parts: list[bytes | Marker], cut: int
) -> None:
    ascii_only = [p for p in parts if isinstance(p, bytes) or p.value.isascii()]
    stream = b"".join(
        p if isinstance(p, bytes) else f"\0key-1 {p.word} {p.value}\0".encode() for p in ascii_only
    )
    marks, printed, found = MarkerParser("key-1"), b"", []
    for start in range(0, len(stream), cut):
        for part in marks.feed(stream[start : start + cut]):
            if isinstance(part, Marker):
                found.append((len(printed), part))
            else:
                printed += part
    printed += marks.rest()
    wanted, before = [], 0
    for part in ascii_only:
        if isinstance(part, Marker):
            wanted.append((before, part))
        else:
            before += len(part)
    assert found == wanted
    assert printed == b"".join(p for p in ascii_only if isinstance(p, bytes))


def test_a_marker_that_never_ends_is_text() -> None:
    marks = MarkerParser("key")
    stream = b"\0key end " + b"x" * 1000
    assert b"".join(p for p in marks.feed(stream) if isinstance(p, bytes)) == stream


def test_the_marker_of_another_key_is_text() -> None:
    assert list(MarkerParser("key").feed(b"\0yek end a\0.")) == [b"\0yek end a\0."]
