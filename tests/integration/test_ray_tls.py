"""Connections of slots that are encrypted as Ray's own are."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from benchfleet.engines.ray_tls import Relay, tls_context
from benchfleet.engines.slot_listener import SlotListener

MAKE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={0} -keyout {0}.key -out {0}.pem"
)
BOUND_S = 60.0


def settings(folder: Path, name: str, authority: str) -> Mapping[str, str]:
    """The environment of a process with the certificate `name`, that trusts `authority`."""
    if not (folder / f"{name}.pem").exists():
        subprocess.run(MAKE.format(name).split(), cwd=folder, check=True, capture_output=True)
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(folder / f"{name}.pem"),
        "RAY_TLS_SERVER_KEY": str(folder / f"{name}.key"),
        "RAY_TLS_CA_CERT": str(folder / f"{authority}.pem"),
    }


class Runner:
    """A listener that trusts the certificate ``lab``, and the streams that reached it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.streams: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
        tls = tls_context(settings(folder, "lab", "lab"), server=True)
        self.listener = SlotListener(
            "127.0.0.1", lambda _, stream: self.streams.put(stream), tls=tls
        )
        self.hello = json.dumps({"key": self.listener.new_key()}).encode() + b"\n"

    def connect(self, certificate: str) -> ssl.SSLSocket:
        """As a slot's actor does."""
        tls = tls_context(settings(self.folder, certificate, "lab"), server=False)
        assert tls is not None
        connection = socket.create_connection(self.listener.address, timeout=BOUND_S)
        secure = tls.wrap_socket(connection)
        with contextlib.suppress(OSError):  # it may be refused already
            secure.sendall(self.hello)
        return secure


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    made = Runner(tmp_path)
    yield made
    made.listener.close()


def test_a_slot_and_its_runner_exchange_any_number_of_bytes_and_see_the_end(
    runner: Runner,
) -> None:
    relay = Relay(runner.connect("lab"))
    ours = runner.streams.get(timeout=BOUND_S)
    for stream in (ours, relay.plain):
        stream.settimeout(BOUND_S)
    data = os.urandom(3_000_000)
    for sender, receiver in ((ours, relay.plain), (relay.plain, ours)):
        sending = threading.Thread(target=sender.sendall, args=(data,))
        sending.start()
        received = bytearray()
        while len(received) < len(data):
            received += receiver.recv(2**20)
        sending.join(BOUND_S)
        assert received == data
    ours.shutdown(socket.SHUT_WR)  # as the runner asks a slot to end
    assert relay.plain.recv(1) == b""
    relay.plain.sendall(b"last words")
    relay.plain.close()
    assert ours.recv(100) == b"last words"
    assert ours.recv(1) == b""
    ours.close()
    relay.join(BOUND_S)


def test_a_stranger_and_a_connection_without_encryption_are_refused(runner: Runner) -> None:
    with socket.create_connection(runner.listener.address, timeout=BOUND_S) as plain:
        plain.sendall(runner.hello)
        with contextlib.suppress(ConnectionResetError):
            plain.recv(100)  # an alert, or nothing
    with contextlib.suppress(OSError), runner.connect("stranger") as secure:
        assert secure.recv(1) == b""  # an alert, or a reset
    assert runner.streams.empty()


def test_without_tls_of_ray_nothing_is_encrypted() -> None:
    assert tls_context({}, server=True) is None
    assert tls_context({"RAY_USE_TLS": "0"}, server=False) is None
