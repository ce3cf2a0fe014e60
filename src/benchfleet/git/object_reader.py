"""Reads the objects of a repository through one process of git that stays."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from contextlib import suppress

from benchfleet.errors import GitAway, GitError, GitKilled
from benchfleet.git.process import Git


class ObjectReader:
    """One `git cat-file --batch` process, which answers one thread at a time."""

    def __init__(self, git: Git) -> None:
        self._git, self._lock = git, threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, oid: str) -> tuple[str, bytes] | None:
        """An object's type and content; None if the repository lacks it."""
        with self._lock:
            try:
                return self._ask(oid)
            except GitKilled:  # a new process answers
                return self._ask(oid)

    def close(self) -> None:
        with self._lock:
            self._end()

    def _ask(self, oid: str) -> tuple[str, bytes] | None:
        try:
            return self._answer(self._running(), oid)
        except BaseException:  # the rest of its answer is not to be taken for the next one
            self._end()
            raise

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                self._git.command("cat-file", "--batch"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                stderr=subprocess.DEVNULL,
                env=self._git.environ,
                start_new_session=True,
            )
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], oid: str) -> tuple[str, bytes] | None:
        requests, replies = process.stdin, process.stdout
        if requests is None or replies is None:
            raise GitError("git cat-file has no pipes")
        with suppress(BrokenPipeError):  # it has ended, which `_receive` finds
            requests.write(f"{oid}\n".encode())
        until, received = time.monotonic() + self._git.timeout, bytearray()
        while b"\n" not in received:
            received += self._receive(process, replies.fileno(), until)
        head, _, rest = bytes(received).partition(b"\n")
        fields = head.split()
        if len(fields) != 3:
            return None
        content, size = bytearray(rest), int(fields[2])
        while len(content) <= size:  # a line feed follows
            content += self._receive(process, replies.fileno(), until)
        return fields[1].decode(), bytes(content[:size])

    def _receive(self, process: subprocess.Popen[bytes], replies: int, until: float) -> bytes:
        """The next bytes. Raises GitAway if none come in time, GitKilled or GitError at the end."""
        if not select.select([replies], [], [], max(0.0, until - time.monotonic()))[0]:
            raise GitAway(f"git cat-file has not answered in {self._git.timeout:g} s")
        if data := os.read(replies, 2**20):
            return data
        if process.wait() == -signal.SIGTERM:
            raise GitKilled("SIGTERM ended git cat-file")
        raise GitError("git cat-file ended without an answer")

    def _end(self) -> None:
        if self._process is not None:
            with self._process as process, suppress(BrokenPipeError):  # which closes its pipes
                process.kill()
            self._process = None
