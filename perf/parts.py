"""Whose time is whose, where one process plays them all: the runner, its ledger, the simulation."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from simulation.turns import Strand, Turns

RUNNER, LEDGER, SIMULATION, BARE = "runner", "ledger", "simulation", "bare"


class Parts:
    """Divides the time between `begin` and `end` among the parts, of which one runs at a time.

    The wall clock is cheap to read and measures each part's share. The share is taken of the CPU
    time of the process, which other processes do not change."""

    def __init__(self) -> None:
        self._walls: defaultdict[str, float] = defaultdict(float)
        self._part, self._since, self._cpu = RUNNER, 0.0, 0.0

    def begin(self) -> None:
        self._walls.clear()
        self._part, self._since, self._cpu = RUNNER, time.perf_counter(), time.process_time()

    def enter(self, part: str) -> str:
        """From now on it is this one's time; whose it was."""
        now, before = time.perf_counter(), self._part
        self._walls[before] += now - self._since
        self._part, self._since = part, now
        return before

    def end(self) -> dict[str, float]:
        """Seconds of CPU of each part."""
        self.enter(RUNNER)
        cpu, wall = time.process_time() - self._cpu, sum(self._walls.values())
        return {part: cpu * self._walls[part] / wall for part in (RUNNER, LEDGER, SIMULATION, BARE)}


class Metered:
    """All that is called of an object is the time of one part."""

    def __init__(self, target: Any, part: str, parts: Parts) -> None:
        self._target, self._name, self._parts = target, part, parts

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._target, name)
        if not callable(member):
            return member
        part, enter = self._name, self._parts.enter

        def call(*args: Any, **named: Any) -> Any:
            before = enter(part)
            try:
                answer = member(*args, **named)
            finally:
                enter(before)
            return self._each(answer) if isinstance(answer, Iterator) else answer

        vars(self)[name] = call
        return call

    def _each(self, answers: Iterator[Any]) -> Iterator[Any]:
        before = self._parts.enter(self._name)
        for answer in answers:
            self._parts.enter(before)
            yield answer
            before = self._parts.enter(self._name)
        self._parts.enter(before)


class MeteredTurns(Turns):
    """Virtual time, in which whatever happens while somebody waits is the simulation's."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self._parts = parts

    def wait_until(self, until: float) -> None:
        before = self._parts.enter(SIMULATION)
        try:
            super().wait_until(until)
        finally:
            self._parts.enter(before)

    def strand(self, gate: Any, target: Callable[[], None], name: str = "") -> Strand:
        def work() -> None:
            self._parts.enter(RUNNER)
            target()
            self._parts.enter(SIMULATION)

        return super().strand(gate, work, name)
