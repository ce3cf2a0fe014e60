"""Somebody who asks things of a run in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchfleet.domain.slots import Answer, SlotsCommand, answer_of, device_name
from stage import Stage

US = "us" * 16


class Person:
    """Somebody who asks things of a run at times of their own."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._due: list[tuple[float, Callable[[], object]]] = []
        self.asked: list[int] = []
        self.waits: list[float] = []  # for which the run was ready to wait
        real = stage.inbox.take

        def take(wait: float) -> Any:
            self.waits.append(wait)
            arrival = real(wait)
            for at, act in list(self._due):
                if stage.clock() - stage.inbox.began >= at:
                    self._due.remove((at, act))
                    act()
            return arrival

        stage.inbox.take = take  # type: ignore[method-assign]

    def does(self, at: float, act: Callable[[], object]) -> None:
        self._due.append((at, act))

    def asks(self, at: float, action: Any, *devices: str, now: bool = False) -> None:
        command = SlotsCommand(action=action, devices=tuple(map(device_name, devices)), now=now)
        self.does(at, lambda: self.asked.append(self.stage.ledger.record(command.event(US))))

    @property
    def answers(self) -> list[Answer]:
        output = [e for e in self.stage.ledger.events() if e.kind == "slots_told"]
        assert [event.data["asked"] for event in output] == self.asked
        return [answer_of(event) for event in output]


@pytest.fixture
def person(stage: Stage) -> Person:
    return Person(stage)


def slot_messages(stage: Stage) -> list[str]:
    return [notice.message for notice in stage.notices_of("slots_changed")]
