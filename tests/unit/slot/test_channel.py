"""A slot that cannot hear its engine says so, and does not seem alive."""

from __future__ import annotations

import os
import queue

import pytest

from benchfleet.engines.frames import Decoder, encode
from benchfleet.slot.channel import Channel


def gone_after(data: bytes) -> str:
    """The reason for which a channel gives up that hears this, and no end."""
    reads, tells = os.pipe()
    hears, writes = os.pipe()
    reasons: queue.SimpleQueue[str] = queue.SimpleQueue()
    channel = Channel(reads, writes, heartbeat=3600, silence=3600, gone=reasons.put)
    channel.start()
    os.write(tells, data)
    try:
        return reasons.get(timeout=60)
    finally:
        for handle in (reads, tells, hears, writes):
            os.close(handle)


def test_what_is_held_goes_with_the_next_frame() -> None:
    reads, tells = os.pipe()
    hears, writes = os.pipe()
    os.set_blocking(hears, False)
    channel = Channel(reads, writes, heartbeat=3600, silence=3600, gone=pytest.fail)
    channel.hold("started", attempt="f/1-1", stage="load")
    with pytest.raises(BlockingIOError):
        os.read(hears, 4096)
    channel.send("started", attempt="f/1-1", stage="benchmark")
    frames = list(Decoder().feed(os.read(hears, 4096)))
    assert [frame.fields["stage"] for frame in frames] == ["load", "benchmark"]
    for handle in (reads, tells, hears, writes):
        os.close(handle)


def test_noise_on_the_channel_is_the_end() -> None:
    assert "may not start with" in gone_after(b"Traceback (most recent call last)")


def test_a_frame_that_lacks_its_field_is_the_end() -> None:
    assert "cannot listen any more: KeyError('attempt')" in gone_after(encode("stop"))
