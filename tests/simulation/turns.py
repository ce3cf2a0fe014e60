"""Virtual time, and threads of which exactly one has its turn: what is drawn alike, happens alike.

A thread that waits advances the time: it takes what is due next, and passes the turn if that
belongs to another thread. With one thread alone there is no switching at all.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from functools import partial
from math import inf

from benchfleet.testing.clock import FakeClock


class Gone(BaseException):
    """The process that this thread belongs to was killed: nothing may catch it."""


class Gate:
    """What a process's threads pass when they get their turn: it may be stopped, or killed."""

    def __init__(self) -> None:
        self.stopped_until = -inf
        self.dead = False


class Strand(threading.Thread):
    """A thread in virtual time."""

    def __init__(self, turns: Turns, gate: Gate, target: Callable[[], None], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._turns, self._work, self.gate = turns, target, gate
        self.turn = threading.Semaphore(0)
        self.waits = 0  # grows with every wait, so that what is due for an earlier one is known
        self.over = False
        self.begun = False

    def start(self) -> None:
        self.begun = True
        super().start()
        self._turns.wake(self)

    def run(self) -> None:
        self.turn.acquire()
        try:
            if not self.gate.dead:
                self._work()
        except Gone:
            pass
        except Exception as error:  # noqa: BLE001 - reported to the thread that watches
            self._turns.failed(error)
        finally:
            self.over = True
            self._turns.leave()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, in virtual time."""
        until = inf if timeout is None else self._turns.now() + timeout
        while not self.over and self._turns.now() < until:
            self._turns.wait_until(min(until, self._turns.now() + 1.0))


class Turns:
    """The virtual time of all strands and of the thread that made it."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.errors: list[Exception] = []
        self.taken = 0  # things that were due and came
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._main = Strand(self, Gate(), lambda: None, "main")
        self._main.begun = True
        self._current = self._main
        self._next: Strand | None = None

    def now(self) -> float:
        return self.clock.now

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do this then, in whatever thread waits."""
        self._count += 1
        heapq.heappush(self._due, (self.clock.now + seconds, self._count, act))

    def strand(self, gate: Gate, target: Callable[[], None], name: str = "") -> Strand:
        """A thread that does this once it was started and has its turn."""
        return Strand(self, gate, target, name)

    @property
    def current(self) -> Strand:
        """Whose turn it is."""
        return self._current

    def wait_until(self, until: float) -> None:
        """Let others go on, until then or until woken. Raises `Gone` in a process that died."""
        me = self._current
        me.waits += 1
        if until < inf:
            self.later(max(0.0, until - self.now()), partial(self._give_turn, me, me.waits))
        self._drive(me)
        if me.gate.dead:
            raise Gone

    def wake(self, strand: Strand) -> None:
        """End its wait now."""
        self.later(0.0, partial(self._give_turn, strand, strand.waits))

    def wake_main(self) -> None:
        """End the wait of the thread that made this."""
        self.wake(self._main)

    def failed(self, error: Exception) -> None:
        """Keep an error that nobody handles, and tell the thread that made this."""
        self.errors.append(error)
        self.wake_main()

    def leave(self) -> None:
        """Go on without the current strand, which ends."""
        self._current.waits += 1
        self._drive(None)

    def _give_turn(self, strand: Strand, number: int) -> None:
        if strand.waits != number or strand.over or not strand.begun:
            return  # it went on before, or was made and nothing more
        if strand.gate.stopped_until > self.now() and not strand.gate.dead:
            again = partial(self._give_turn, strand, number)
            self.later(strand.gate.stopped_until - self.now(), again)
            return
        strand.waits += 1
        self._next = strand

    def _drive(self, me: Strand | None) -> None:
        while True:
            at, _, act = heapq.heappop(self._due)
            self.clock.now = max(self.clock.now, at)
            self.taken += 1
            try:
                act()
            except Exception as error:  # noqa: BLE001 - reported to the thread that watches
                self.failed(error)
            strand, self._next = self._next, None
            if strand is None:
                continue
            self._current = strand
            if strand is not me:
                strand.turn.release()
                if me is not None:
                    me.turn.acquire()
            return


class VirtualEvent(threading.Event):
    """A flag that is waited for in virtual time."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns
        self._waiting: list[Strand] = []

    def set(self) -> None:
        super().set()
        for strand in self._waiting:
            self._turns.wake(strand)
        self._waiting.clear()

    def wait(self, timeout: float | None = None) -> bool:
        until = inf if timeout is None else self._turns.now() + timeout
        if not self.is_set() and timeout != 0:
            self._waiting.append(self._turns.current)
            self._turns.wait_until(until)
        return self.is_set()
