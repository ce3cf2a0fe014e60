"""The notifications of a campaign in its ledger, where all its workers share them.

What is to be sent is read from the events of the ledger: decisions on gates, workers whose leases
expired, and the messages that workers record. To send messages a worker first claims them, and then
records that they were sent. Both are events of one subject (see *Subjects* in
`benchfleet.ledger.base`), so of several workers one claims a message. If it does not say within
`CLAIM_TIMEOUT_S` that it sent it, another worker claims it. A claim by nobody gives messages back;
it names the last one that was perhaps sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from benchfleet.domain.event import Event
from benchfleet.domain.notification import SUBJECT, NotificationSettings
from benchfleet.domain.phase import GATE_CLOSED, GATE_OPENED
from benchfleet.domain.slots import BEGAN
from benchfleet.errors import Superseded
from benchfleet.ledger.base import Ledger
from benchfleet.notifications.messages import Message, gate_message, recorded_message

DUE, CLAIMED, SENT = "notification_due", "notification_claimed", "notification_sent"
CLAIM_TIMEOUT_S = 120.0  # longer than a message is sent for
_REAPED = "reaped"  # by the ledger: a lease expired
_KINDS = (DUE, CLAIMED, SENT, GATE_OPENED, GATE_CLOSED, _REAPED, BEGAN)


class _Waiting(NamedTuple):
    seq: int  # of its event
    message: Message


class Outbox:
    """The messages of a campaign that are not sent yet, as one worker sees them.

    Clocks of machines are never compared: times are by `clock`, from when this worker first read an
    event. All methods raise LedgerUnreachable.
    """

    def __init__(
        self,
        ledger: Ledger,
        worker: str,
        settings: NotificationSettings,
        clock: Callable[[], float],
        *,
        is_new: bool = False,
    ) -> None:
        """`is_new`: the ledger did not exist when this worker began."""
        self._ledger, self._worker, self._settings = ledger, worker, settings
        self._clock, self._is_new = clock, is_new
        self._waiting: list[_Waiting] = []  # oldest first
        self._read_to = self._last = 0  # numbers of the last event: of those read, of the subject
        self._due: dict[str, int] = {}  # number of the newest event, by key
        self._hosts: dict[str, str] = {}  # of each runner
        self._lost: set[str] = set()  # runners
        self._sent_to = self._delivered_to = 0  # event numbers: in the ledger, by this worker
        self._claimed_to, self._claimed_by, self._claimed_at = 0, "", float("-inf")
        self._perhaps_sent_to = 0  # by workers that did not learn whether they sent it
        self._sent_at = float("-inf")
        self._is_first = True  # what is read now was there before this worker

    def read(self) -> None:
        """Read what is new. The first worker of all begins here: what was before is no news."""
        for event in self._ledger.events(self._read_to, kinds=_KINDS):
            self._read_to = event.seq
            self._apply(event)
        self._is_first = False
        if not self._last:
            up_to = 0 if self._is_new else self._ledger.last_event()
            self._append(SENT, up_to=up_to, worker="")

    def add(self, message: Message) -> None:
        """Record a message, unless a worker recorded it before."""
        while not self._is_known(message):
            if self._append(DUE, **message.data()):
                return

    def claim(self, *, ends: bool = False) -> Sequence[Message]:
        """Claim the messages that may go now: no other worker sends them. `ends`: they wait for
        nothing, because this worker ends."""
        while self.wait(ends=ends) == 0.0:
            messages, up_to = self._messages(), self._waiting[-1].seq
            if self._append(CLAIMED, up_to=up_to, worker=self._worker):
                return messages
        return ()

    def sent(self) -> None:
        """The messages that this worker claimed were sent."""
        self._delivered_to = self._claimed_to
        self.confirm()

    def confirm(self) -> None:
        """Record what this worker sent, if the ledger does not know it yet."""
        while self._sent_to < self._delivered_to:
            self._append(SENT, up_to=self._delivered_to, worker=self._worker)

    def give_back(self, *, perhaps_sent: bool = False) -> None:
        """The messages that this worker claimed were not sent, as far as it knows, and others may
        claim them."""
        up_to = self._claimed_to if perhaps_sent else 0
        self._perhaps_sent_to = max(self._perhaps_sent_to, up_to)
        while self._claimed_by == self._worker:
            self._append(CLAIMED, up_to=up_to, worker="")

    def wait(self, *, ends: bool = False) -> float | None:
        """Seconds until messages may be claimed; None if there are none."""
        if not self._waiting:
            return None
        now = self._clock()
        hurries = ends or any(one.message.final for one in self._waiting)
        due = float("-inf") if hurries else self._sent_at + self._settings.every
        if self._is_elsewhere:
            due = max(due, self._claimed_at + CLAIM_TIMEOUT_S)
        return max(0.0, due - now)

    @property
    def _is_elsewhere(self) -> bool:
        """Whether another worker claimed messages and did not say yet that it sent them."""
        return self._claimed_to > self._sent_to and self._claimed_by != self._worker

    def _messages(self) -> list[Message]:
        """What waits. A worker that claimed some before may have sent them and not said so."""
        unsure_to = max(self._perhaps_sent_to, self._claimed_to if self._is_elsewhere else 0)
        return [
            replace(one.message, text=f"{one.message.text} (perhaps sent before)")
            if one.seq <= unsure_to
            else one.message
            for one in self._waiting
        ]

    def _is_known(self, message: Message) -> bool:
        last = self._due.get(message.key)
        if last is None:
            return False
        again_after = message.again_after
        return not (again_after and self._ledger.events(last, kinds=again_after))

    def _append(self, kind: str, **data: object) -> bool:
        """Record an event of the subject and read it; False where another came before it."""
        try:
            event = Event(kind=kind, fingerprint=SUBJECT, data=data)
            self._ledger.record(event, after=self._last)
        except Superseded:
            self.read()
            return False
        self.read()
        return True

    def _apply(self, event: Event) -> None:
        data = event.data
        if event.fingerprint == SUBJECT:
            self._last = event.seq
        if event.kind == BEGAN:
            self._hosts[data["runner"]] = str(data.get("host") or data.get("machine", ""))
        elif event.kind == CLAIMED:
            self._apply_claim(data["up_to"], data["worker"])
        elif event.kind == SENT:
            self._sent_to = max(self._sent_to, data["up_to"])
            self._waiting = [one for one in self._waiting if one.seq > self._sent_to]
            if data["worker"] and not self._is_first:
                self._sent_at = self._clock()
        elif event.kind == DUE:
            self._due[data["key"]] = event.seq
            self._put(event, recorded_message(event))
        elif event.kind == _REAPED:
            self._lose(event)
        else:
            self._put(event, gate_message(event))

    def _apply_claim(self, up_to: int, worker: str) -> None:
        """A worker claimed messages, or gave them back (no worker)."""
        unsure_to = 0
        if not worker:
            unsure_to = up_to
        elif worker != self._claimed_by:  # which did not say that it sent them
            unsure_to = self._claimed_to
        self._perhaps_sent_to = max(self._perhaps_sent_to, unsure_to)
        self._claimed_to, self._claimed_by = (up_to if worker else 0), worker
        self._claimed_at = self._clock()

    def _lose(self, event: Event) -> None:
        """A lease of a runner expired; its other leases say nothing new."""
        runner = event.data["runner"]
        if runner not in self._lost:
            self._lost.add(runner)
            name = self._hosts.get(runner) or "an unknown host"
            text = f"The worker on {name} ({runner[:8]}) is lost: its leases expired"
            self._put(event, Message(kind="host_lost", text=text))

    def _put(self, event: Event, message: Message) -> None:
        if message.kind in self._settings.on and event.seq > self._sent_to:
            self._waiting.append(_Waiting(event.seq, message))
