"""Work that one process of a host does for all: the lock that they wait for."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from benchfleet.environment import own_cache


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
def locked(lock: Path) -> Iterator[WorkMark]:
    """The lock, waited for. The kernel frees it when its holder dies, however it dies; the mark
    then tells the next one that the work was not done."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "a", encoding="ascii") as state:
        fcntl.flock(state, fcntl.LOCK_EX)
        yield WorkMark(state)


def unfinished(lock: Path) -> bool:
    """Whether work under the lock is under way, or was cut short."""
    try:
        return lock.stat().st_size > 0
    except FileNotFoundError:
        return False
