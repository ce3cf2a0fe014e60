"""What an engine reads from the connections of a slot on another machine."""

from __future__ import annotations

import socket
from pathlib import Path

from benchfleet.engines.base import SlotId
from benchfleet.engines.child import Child
from benchfleet.engines.frames import encode
from benchfleet.engines.ray_process import RayProcess
from benchfleet.engines.slot_reader import SlotReader


def connection() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection, ours first."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        return server.accept()[0], theirs


def test_a_slot_that_ends_before_it_read_a_ping_has_ended(tmp_path: Path) -> None:
    """Its machine then resets the connection rather than closing it."""
    (frames, their_frames), (output, their_output) = connection(), connection()
    process = RayProcess(frames, output, lambda: None)
    child = Child(SlotId("s"), process, log=tmp_path / "log", key="k", remote=True)
    ended: list[int] = []
    reader = SlotReader(lambda event: None, lambda child, why: None,
                        lambda child, handle: ended.append(handle))  # fmt: skip
    frames.sendall(encode("ping"))
    their_frames.recv(1, socket.MSG_PEEK)  # it has arrived
    their_frames.close()
    assert not reader.read_frames(child)
    assert ended == [child.stdout]
    their_output.close()
    process.release()
