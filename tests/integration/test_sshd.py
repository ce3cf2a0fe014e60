"""The sshd that other tests run against does what it says, to real connections."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from benchfleet.engines.openssh import OpenSsh, connections
from sshd import Sshd

# A program that says that it runs, leaves its session, and stays.
STAYS = ["sh", "-c", "setsid sleep 300 & echo up; sleep 300"]


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[OpenSsh]:
    with connections(tmp_path / "own %h folder" / "known_hosts") as ssh:
        yield ssh


@pytest.fixture
def started(own_sshd: Sshd, ssh: OpenSsh) -> Iterator[subprocess.Popen[bytes]]:
    """A session on the host that stays."""
    argv = ssh.argv(own_sshd.host(), STAYS)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process
        process.kill()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _ask(ssh: OpenSsh, sshd: Sshd, *words: str) -> subprocess.CompletedProcess[str]:
    argv = ssh.argv(sshd.host(), words)
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_a_command_runs_on_it_with_words_as_they_are(sshd: Sshd, ssh: OpenSsh) -> None:
    done = _ask(ssh, sshd, "printf", "%s|", "two words", "$HOME", "ü'\"\\")
    assert done.stdout == "two words|$HOME|ü'\"\\|", done.stderr
    assert ssh.known_hosts.read_text().count("ssh-ed25519") == 1


def test_one_connection_serves_all_and_ends_with_the_block(sshd: Sshd, tmp_path: Path) -> None:
    before = sshd.log().count("Accepted publickey")
    with connections(tmp_path / "known_hosts") as ssh:
        shells = {_ask(ssh, sshd, "sh", "-c", "echo $PPID").stdout for _ in range(3)}
        (socket,) = ssh.sockets.iterdir()
        assert len(os.fsencode(socket)) < 100
    assert not ssh.sockets.exists()
    assert len(shells) == 1
    assert sshd.log().count("Accepted publickey") == before + 1


def test_a_long_folder_for_temporary_files_is_no_obstacle(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("long-" * 20)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with connections(tmp_path / "known_hosts") as ssh:
        assert _ask(ssh, sshd, "echo", "here").stdout == "here\n"


def test_a_space_in_the_path_of_temporary_files_is_no_obstacle(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="a b", dir="/tmp") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        with connections(tmp_path / "known_hosts") as ssh:
            done = [_ask(ssh, sshd, "sh", "-c", "echo $PPID") for _ in range(2)]
            assert done[0].stdout == done[1].stdout != "", done[0].stderr
            (socket,) = ssh.sockets.iterdir()
            assert socket.is_relative_to(folder)
        _until(lambda: not _named(str(socket)))


def _named(words: str) -> list[psutil.Process]:
    """The processes with these words on their command lines."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if words in " ".join(process.info["cmdline"] or ())
    ]


def test_kill_leaves_nothing_of_its_sessions(
    own_sshd: Sshd, started: subprocess.Popen[bytes]
) -> None:
    _until(lambda: len(own_sshd.sessions()) >= 3)
    own_sshd.kill()
    assert started.wait(60) == 255
    assert not own_sshd.sessions()


def test_stop_leaves_the_connections_and_start_takes_new_ones(
    own_sshd: Sshd, started: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    own_sshd.stop()
    with connections(tmp_path / "others") as ssh:
        assert "refused" in _ask(ssh, own_sshd, "true").stderr
        assert started.poll() is None
        own_sshd.start()
        assert _ask(ssh, own_sshd, "echo", "again").stdout == "again\n"
