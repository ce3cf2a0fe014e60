"""Work that one process of a host does for all: the lock that they wait for."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from benchfleet.environment import own_cache

_POLL_S = 0.1


class WorkMark:
    """What stands in a lock's file: whether its work was begun and not finished."""

    def __init__(self, state: TextIO) -> None:
        self._state = state

    def begin(self) -> None:
        """Say that the work is under way."""
        self._write("unfinished\n")

    def finish(self) -> None:
        """Say that the work is done."""
        self._write("")

    def _write(self, text: str) -> None:
        self._state.seek(0)
        self._state.truncate()
        self._state.write(text)
        self._state.flush()


def lock_file(name: str, environ: Mapping[str, str]) -> Path:
    """The lock of this user's processes that bears the name."""
    return own_cache(environ) / "locks" / name.replace("/", "--")


@contextmanager
def locked(lock: Path, while_waiting: Callable[[], object] | None = None) -> Iterator[WorkMark]:
    """The lock, waited for; `while_waiting` is called ten times a second and may raise. The kernel
    frees it when its holder dies, however it dies; the mark then tells the next one that the work
    was not done."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "a", encoding="ascii") as state:
        while while_waiting is not None and not _try_lock(state):
            while_waiting()
            time.sleep(_POLL_S)
        fcntl.flock(state, fcntl.LOCK_EX)
        yield WorkMark(state)


def _try_lock(state: TextIO) -> bool:
    """Take the lock unless somebody has it; whether it was taken."""
    try:
        fcntl.flock(state, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unfinished(lock: Path) -> bool:
    """Whether work under the lock is under way, or was cut short."""
    try:
        return lock.stat().st_size > 0
    except FileNotFoundError:
        return False
