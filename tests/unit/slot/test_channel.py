"""A slot that cannot hear its engine says so, and does not seem alive."""

from __future__ import annotations

import os
import queue

from benchfleet.engines.frames import encode
from benchfleet.slot.channel import Channel


def gone_after(data: bytes) -> str:
    """The reason for which a channel gives up that hears this, and no end."""
    reads, tells = os.pipe()
    hears, writes = os.pipe()
    reasons: queue.SimpleQueue[str] = queue.SimpleQueue()
    channel = Channel(reads, writes, heartbeat=3600, silence=3600, on_lost=reasons.put)
    channel.start()
    os.write(tells, data)
    try:
        return reasons.get(timeout=60)
    finally:
        for handle in (reads, tells, hears, writes):
            os.close(handle)


def test_noise_on_the_channel_is_the_end() -> None:
    assert "may not start with" in gone_after(b"Traceback (most recent call last)")


def test_a_frame_that_lacks_its_field_is_the_end() -> None:
    assert "cannot read any more: KeyError('attempt')" in gone_after(encode("stop"))
