"""Orders to the slots of runners, and their answers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from benchfleet.domain.event import Event
from benchfleet.domain.slots import (
    ADDED,
    ANSWERED,
    BEGAN,
    ENDED,
    FREED,
    REMOVED,
    Answer,
    DeviceName,
    SlotsCommand,
    answer_of,
)
from benchfleet.engines.processes import owner, process_space
from benchfleet.ledger.base import Ledger
from benchfleet.orders.base import Origin

ANSWER_TIMEOUT_S = 10.0  # seconds for an answer; a runner looks once a second
_POLL_INTERVAL_S = 0.1  # seconds between looks at the ledger
RUNNER_EVENTS = (BEGAN, ENDED)  # the kinds of events that tell which runners are
_AWAITED_EVENTS = (ANSWERED, FREED, ENDED)  # what is waited for


@dataclass(frozen=True, kw_only=True)
class RunningRunner:
    """A runner with a start event and no end event."""

    id: str
    machine: str
    process: str
    space: str  # the boot and the PID namespace in which that name holds; "" where not known
    began: float  # seconds since the epoch by the ledger's clock

    @property
    def is_here(self) -> bool:
        """Whether it was started on this machine."""
        return self.machine == socket.gethostname()

    @property
    def is_gone(self) -> bool:
        """Whether its process has ended, as far as this machine can see."""
        if not self.is_here or "@" not in self.process:
            return False
        boot, current = self.space.partition(" ")[0], process_space()
        if boot and self.space != current:  # the processes of another namespace are not seen
            return boot != current.partition(" ")[0]
        return owner(int(self.process.partition("@")[0])) != self.process


def runners(events: Iterable[Event]) -> list[RunningRunner]:
    """The runners that may be at work, oldest first."""
    by_id: dict[str, RunningRunner] = {}
    for event in events:
        name = event.data.get("runner", "")
        if event.kind == BEGAN:
            by_id[name] = RunningRunner(
                id=name,
                machine=str(event.data.get("machine", "")),
                process=str(event.data.get("process", "")),
                space=str(event.data.get("space", "")),
                began=event.at,
            )
        elif event.kind == ENDED:
            by_id.pop(name, None)
    return [one for one in by_id.values() if not one.is_gone]


def send(ledger: Ledger, command: SlotsCommand, runner: str, origin: Origin) -> int:
    """Give a command to a runner; the number of its event, which the answer names."""
    event = command.event(runner)
    return ledger.record(Event(kind=event.kind, data={**event.data, **origin.data()}))


def leave_out(
    ledger: Ledger,
    devices: Iterable[tuple[str, DeviceName]],
    origin: Origin,
    *,
    again: bool = False,
) -> None:
    """Leave devices out of the runs that begin later, or let them use these `again`. Each has the
    machine of these runs; "" for a device that names its host."""
    for machine, device in devices:
        data = {"runner": "", "machine": machine, "devices": [str(device)]}
        ledger.record(Event(kind=ADDED if again else REMOVED, data={**data, **origin.data()}))


def await_answers(
    ledger: Ledger, requests: Collection[int], *, timeout_s: float = ANSWER_TIMEOUT_S
) -> dict[int, Answer]:
    """What the runners say, by the number of what they were asked; those that do not answer in
    time are left out."""
    answers: dict[int, Answer] = {}

    def all_answered(events: Sequence[Event]) -> bool:
        for event in events:
            if event.kind == ANSWERED and event.data.get("asked") in requests:
                answers[event.data["asked"]] = answer_of(event)
        return len(answers) == len(requests)

    follow(ledger, min(requests), all_answered, timeout_s=timeout_s)
    return answers


def follow(
    ledger: Ledger,
    since: int,
    enough: Callable[[Sequence[Event]], bool],
    *,
    timeout_s: float | None,
) -> None:
    """Look at new events until they are enough, for `timeout_s` seconds at most."""
    until = None if timeout_s is None else time.monotonic() + timeout_s
    every = _POLL_INTERVAL_S
    while True:
        events = ledger.events(since, kinds=_AWAITED_EVENTS)
        since = events[-1].seq if events else since
        if enough(events) or (until is not None and time.monotonic() > until):
            return
        time.sleep(every)
        every = min(1.0, 1.5 * every)
