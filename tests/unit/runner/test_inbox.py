"""One thread waits for what is posted to it and for what its sources have."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from benchfleet.runner.inbox import Interrupted, NoRoom, RealInbox

LONG = 60.0


class Pipe:
    """A source that posts one arrival for each byte, and has something due now and then."""

    def __init__(self, inbox: RealInbox, due: float) -> None:
        self.inbox, self.due = inbox, due
        self.reads, self.writes = os.pipe()
        os.set_blocking(self.reads, False)
        self.turns: list[int] = []

    def fileno(self) -> int:
        return self.reads

    def turn(self) -> float:
        self.turns.append(threading.get_ident())
        try:
            for _ in os.read(self.reads, 100):
                self.inbox.post(NoRoom())
        except BlockingIOError:
            pass
        return self.due

    def close(self) -> None:
        os.close(self.reads)
        os.close(self.writes)


@pytest.fixture
def inbox() -> RealInbox:
    return RealInbox()


@pytest.fixture
def pipe(inbox: RealInbox) -> Iterator[Pipe]:
    made = Pipe(inbox, due=LONG)
    inbox.watch(made)
    yield made
    made.close()


def test_what_another_thread_posts_wakes_who_waits(inbox: RealInbox) -> None:
    for number in range(200):
        posting = threading.Thread(target=inbox.post, args=(Interrupted(signal=str(number)),))
        posting.start()
        assert inbox.take(LONG) == Interrupted(signal=str(number))
        posting.join()


def test_what_a_source_has_is_brought_in_by_who_waits(inbox: RealInbox, pipe: Pipe) -> None:
    assert inbox.take(0.0) is None
    later = threading.Timer(0.05, os.write, (pipe.writes, b"ab"))
    later.start()
    assert [inbox.take(LONG), inbox.take(LONG), inbox.take(0.0)] == [NoRoom(), NoRoom(), None]
    assert set(pipe.turns) == {threading.get_ident()}
    later.join()


def test_a_source_has_its_turn_when_something_is_due(inbox: RealInbox, pipe: Pipe) -> None:
    pipe.due = 0.01
    inbox.watch(pipe)
    assert inbox.take(0.1) is None
    assert len(pipe.turns) > 2


def test_a_source_has_its_turn_while_much_else_is_posted(inbox: RealInbox, pipe: Pipe) -> None:
    pipe.due = 0.0
    inbox.watch(pipe)
    for _ in range(3):
        inbox.post(Interrupted(signal=""))
    for turns in range(1, 4):
        inbox.take(LONG)
        assert len(pipe.turns) >= turns


def test_a_source_that_is_forgotten_is_let_alone(inbox: RealInbox, pipe: Pipe) -> None:
    inbox.forget(pipe)
    os.write(pipe.writes, b"a")
    assert inbox.take(0.05) is None
    assert not pipe.turns
