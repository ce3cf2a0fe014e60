"""What several threads ask of a server goes together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from benchfleet.ledger.postgres.together import Together


class Server:
    """Answers ten times what it is asked, once it may; what is negative it refuses."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.begun = threading.Semaphore(0)
        self.may = threading.Semaphore(0)
        self.fails: list[BaseException] = []

    def __call__(self, some: Sequence[int]) -> list[int | Exception]:
        self.asked.append(list(some))
        self.begun.release()
        assert self.may.acquire(timeout=30)
        if self.fails:
            raise self.fails.pop()
        return [10 * one if one >= 0 else ValueError(f"not {one}") for one in some]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def asks(server: Server) -> Callable[..., list[Future[int]]]:
    """Asks in threads: one first, and the others while that is being answered."""
    together = Together[int, int](server)

    def asked(first: int, *others: int) -> list[Future[int]]:
        with ThreadPoolExecutor(1 + len(others)) as threads:
            found = [threads.submit(together, first)]
            assert server.begun.acquire(timeout=30)
            for number, other in enumerate(others, start=1):
                found.append(threads.submit(together, other))
                while len(together._waiting) < number:  # it tells nobody that it waits
                    time.sleep(0.001)
            for _ in range(4):
                server.may.release()
        return found

    return asked


def test_what_is_asked_meanwhile_is_asked_at_once(
    server: Server, asks: Callable[..., list[Future[int]]]
) -> None:
    assert [one.result() for one in asks(1, 2, 3, 4)] == [10, 20, 30, 40]
    assert server.asked == [[1], [2, 3, 4]]
    assert [one.result() for one in asks(5)] == [50]


def test_each_is_told_its_own_error(server: Server, asks: Callable[..., list[Future[int]]]) -> None:
    one, two, three = asks(1, -2, 3)
    assert (one.result(), three.result()) == (10, 30)
    with pytest.raises(ValueError, match="not -2"):
        two.result()


def test_where_nothing_is_answered_all_are_told(
    server: Server, asks: Callable[..., list[Future[int]]]
) -> None:
    server.fails = [OSError("gone"), ValueError("odd")]
    one, *others = asks(1, 2, 3)
    with pytest.raises(ValueError, match="odd"):
        one.result()
    for other in others:
        with pytest.raises(OSError, match="gone"):
            other.result()


def test_others_ask_again_where_the_one_that_asked_for_them_is_interrupted(
    server: Server, asks: Callable[..., list[Future[int]]]
) -> None:
    server.fails = [KeyboardInterrupt(), OSError("gone")]
    one, two, three = asks(1, 2, 3)
    with pytest.raises(OSError, match="gone"):
        one.result()
    with pytest.raises(KeyboardInterrupt):
        two.result()
    assert three.result() == 30
    assert server.asked == [[1], [2, 3], [3]]
