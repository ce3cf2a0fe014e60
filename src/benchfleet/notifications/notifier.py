"""Observes a run and sends messages from a thread of its own.

The first message goes at once. What happens in the `every` seconds after it waits and goes
together. At the end of the run all that waits is sent, for at most `LAST_TIMEOUT_S`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from benchfleet.domain.notification import NotificationSettings
from benchfleet.errors import CampaignError, MissingExtra, Mistake
from benchfleet.notifications.messages import Message, MessageWriter
from benchfleet.notifications.send import Delivery, send
from benchfleet.providers.secret import Secret, SecretError, read_secret
from benchfleet.runner.progress import Notice, Progress

LAST_TIMEOUT_S = 10.0  # for what waits at the end of a run
_MAX_LINES = 20  # of one message


class Send(Protocol):
    """Sends a message to addresses; see `send`."""

    def __call__(
        self, addresses: Sequence[str], title: str, body: str, *, timeout: float = ...
    ) -> Delivery: ...


class Notifier:
    """An observer of a run; it never waits and never raises."""

    def __init__(
        self,
        settings: NotificationSettings,
        campaign: str,
        addresses: Sequence[Secret],
        *,
        warn: Callable[[str], None],
        send: Send = send,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._every, self._campaign = settings.every, campaign
        self._addresses, self._warn, self._send, self._clock = addresses, warn, send, clock
        self._writer = MessageWriter(settings)
        self._waiting: list[Message] = []
        self._changed = threading.Condition()
        self._over = self._delivering = self._reported_unknown = False
        self._next = float("-inf")  # on the clock: when a message may go
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)
        self._thread.start()

    def __call__(self, notice: Notice, progress: Progress) -> None:
        if messages := self._writer.messages(notice, progress):
            with self._changed:
                self._waiting += messages
                self._changed.notify()

    def close(self, timeout: float = LAST_TIMEOUT_S) -> None:
        """Send what waits, and return after `timeout` seconds at the latest."""
        with self._changed:
            self._over = True
            self._changed.notify()
            has_messages = bool(self._waiting) or self._delivering
        if has_messages:
            self._thread.join(timeout)

    def _run(self) -> None:
        self._deliver("", "")  # an address that is wrong is reported at the start
        while messages := self._take():
            title = f"benchfleet: {self._campaign}"
            self._deliver(title, body_of(messages))
            self._next = self._clock() + self._every

    def _take(self) -> list[Message]:
        """The messages that may go now; none once the run is over."""
        with self._changed:
            while not self._is_due():
                if self._over:
                    return []
                self._delivering = False
                self._changed.wait(self._next - self._clock() if self._waiting else None)
            messages, self._waiting = self._waiting, []
            self._delivering = True
            return messages

    def _is_due(self) -> bool:
        if not self._waiting:
            return False
        return self._over or self._waiting[-1].final or self._clock() >= self._next

    def _deliver(self, title: str, body: str) -> None:
        addresses = [secret.reveal() for secret in self._addresses]
        delivery = self._send(addresses, title, body)
        if delivery.unknown and not self._reported_unknown:
            self._reported_unknown = True
            self._warn(
                f"{delivery.unknown} of {len(addresses)} addresses of notify.to are unknown to "
                "Apprise; see its list of services"
            )
        if delivery.failed:
            self._warn(
                f"a notification did not reach {delivery.failed} of {len(addresses)} addresses"
            )


def body_of(messages: Sequence[Message]) -> str:
    """One line a message; equal ones once, with their number."""
    counts = Counter(message.text for message in messages)
    lines = [text if count == 1 else f"{text} ({count} times)" for text, count in counts.items()]
    more = len(lines) - _MAX_LINES
    return "\n".join([*lines[:_MAX_LINES], *([f"and {more} more"] if more > 0 else [])])


@contextlib.contextmanager
def notifying(
    settings: NotificationSettings | None,
    campaign: str,
    folder: Path | None,
    warn: Callable[[str], None],
) -> Iterator[Notifier | None]:
    """The notifier of a run. Raises `CampaignError` where the addresses cannot be read, and
    `MissingExtra` without Apprise."""
    if settings is None:
        yield None
        return
    if find_spec("apprise") is None:
        raise MissingExtra("'notify' needs apprise; pip install 'benchfleet[notify]'")
    addresses = _addresses(settings, folder)
    notifier = Notifier(settings, campaign, addresses, warn=warn)
    try:
        yield notifier
    finally:
        notifier.close()


def _addresses(settings: NotificationSettings, folder: Path | None) -> list[Secret]:
    """The addresses, each hidden from messages and from the environment of cells."""
    addresses: list[Secret] = []
    for source in settings.to:
        kind, _, name = source.partition(":")
        if kind == "file":
            source = f"file:{Path(folder or '.', Path(name).expanduser())}"
        try:
            text = read_secret(source).reveal()
        except SecretError as error:
            text = str(error).replace("the provider's key", "addresses of Apprise")
            mistake = Mistake(key="notify.to", message=text)
            raise CampaignError("campaign", [mistake]) from None
        addresses += [Secret(one) for one in text.split()]
    return addresses
