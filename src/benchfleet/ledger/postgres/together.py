"""What several threads ask of a server, asked together by one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

_MOST = 100  # that are asked at once
Q = TypeVar("Q")
A = TypeVar("A")


class _Asking(Generic[Q, A]):
    __slots__ = ("answer", "asks", "held", "what")

    def __init__(self, what: Q) -> None:
        self.what = what
        self.answer: A | Exception | None = None
        self.asks = False  # it is this thread's turn to ask for all who wait
        self.held = threading.Lock()  # until it goes on
        self.held.acquire()


class Together(Generic[Q, A]):
    """Gathers what is asked while the server answers what was asked before, so that many slots
    wait for few answers. `ask` answers each, in their order; an error among the answers is raised
    where it was asked for, and one that `ask` raises, by all."""

    def __init__(self, ask: Callable[[Sequence[Q]], Sequence[A | Exception]]) -> None:
        self._ask = ask
        self._waiting: list[_Asking[Q, A]] = []
        self._asked = False  # a thread asks, or is about to
        self._lock = threading.Lock()

    def __call__(self, what: Q) -> A:
        """The answer, or what was raised instead."""
        with self._lock:
            alone = not self._asked
            self._asked = True
            if not alone:
                mine: _Asking[Q, A] = _Asking(what)
                self._waiting.append(mine)
        if alone:  # most are: what comes meanwhile waits
            try:
                (answer,) = self._ask((what,))
            finally:
                self._hand_on()
        else:
            answer = self._answer_of(mine)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _answer_of(self, mine: _Asking[Q, A]) -> A | Exception:
        self._wait(mine)
        if mine.asks:
            self._ask_for_all(mine)
        return cast("A | Exception", mine.answer)

    def _wait(self, mine: _Asking[Q, A]) -> None:
        """Until it is answered, or has to ask."""
        try:
            mine.held.acquire()
        except BaseException:  # Ctrl-C
            with self._lock:
                if mine in self._waiting:
                    self._waiting.remove(mine)
            if mine.asks:
                self._hand_on()
            raise

    def _ask_for_all(self, mine: _Asking[Q, A]) -> None:
        with self._lock:
            some = [mine, *self._waiting[: _MOST - 1]]
            del self._waiting[: _MOST - 1]
        try:
            answers: Sequence[A | Exception] = self._ask([one.what for one in some])
        except Exception as error:  # noqa: BLE001 - each of them raises it
            answers = [error] * len(some)
        except BaseException:  # Ctrl-C is for this thread: the others ask once more
            with self._lock:
                self._waiting[:0] = some[1:]
            self._hand_on()
            raise
        self._hand_on()
        for one, answer in zip(some, answers, strict=True):
            one.answer = answer
            if one is not mine:
                one.held.release()

    def _hand_on(self) -> None:
        """Let the next of those who wait ask, if any."""
        with self._lock:
            if self._waiting:
                following = self._waiting.pop(0)
                following.asks = True
                following.held.release()
            else:
                self._asked = False
