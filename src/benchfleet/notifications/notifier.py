"""Observes a run or a worker, and sends messages from a thread of its own.

The thread looks into the campaign's ledger, where all workers share their messages; see `outbox`.
The first message goes at once. What happens in the `every` seconds after it waits and goes
together. A worker that ends sends all that waits, for at most `LAST_TIMEOUT_S`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from functools import cache

from benchfleet.domain.cell import Cell
from benchfleet.domain.notification import NotificationSettings
from benchfleet.errors import BenchfleetError, CampaignError, MissingExtra
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.history import counts, with_skipped
from benchfleet.notifications.addresses import read_addresses
from benchfleet.notifications.messages import Message, MessageWriter, campaign_done, run_ended
from benchfleet.notifications.outbox import Outbox
from benchfleet.notifications.send import Delivery, Send, send
from benchfleet.providers.secret import Secret
from benchfleet.runner.progress import Notice, Progress
from benchfleet.study import Study

LAST_TIMEOUT_S = 20.0  # for what waits at the end of a run
LOOK_EVERY_S = 60.0  # into the ledger, for what other workers left
RETRY_S = 600.0  # after a message that reached no address
_LEDGER_TIMEOUT_S = 5.0
_NO_LEDGER_WAIT_S = 1.0
_OLD_VIEW_WAIT_S = 0.5
_KILL_TIMEOUT_S = 2.0
_MAX_LINES = 20  # of one message


class Notifier:
    """An observer of a run; it never waits and never raises.

    `open_ledger` returns None while there is no ledger. `cells` returns the fingerprints of the
    campaign's cells, or None for all that the ledger has. A worker without addresses records what
    happens, and others send it.
    """

    def __init__(
        self,
        settings: NotificationSettings,
        campaign: str,
        addresses: Sequence[Secret],
        *,
        open_ledger: Callable[[], Ledger | None],
        cells: Callable[[], Collection[str] | None],
        is_worker: bool,
        warn: Callable[[str], None],
        send: Send = send,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._campaign, self._is_worker = settings, campaign, is_worker
        self._addresses, self._warn, self._send, self._clock = addresses, warn, send, clock
        self._open_ledger, self._cells = open_ledger, cells
        self._name = os.urandom(8).hex()
        self._writer, self._progress = MessageWriter(settings), Progress()
        self._noticed: deque[Message] = deque()  # not in the ledger yet
        self._outbox: Outbox | None = None
        self._changed = threading.Condition()
        self._is_new = self._is_changed = self._is_end_reported = self._over = self._abandoned = (
            False
        )
        self._kill: Callable[[], None] = _nothing  # ends what is being sent
        self._retry_at = float("-inf")
        self._is_view_old = False
        self._ended_at: float | None = None  # when the last cell had ended here
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)
        self._thread.start()

    def __call__(self, notice: Notice, progress: Progress) -> None:
        self._progress = progress
        messages = self._writer.messages(notice, progress)
        if notice.kind == "run_ended":
            self._ended_at = self._clock()
        has_ended = notice.kind in ("cell_done", "cell_failed")
        if has_ended:
            self._is_end_reported = False
        is_last = has_ended and progress.ended >= progress.total
        if messages or is_last or notice.kind in ("gate_decided", "run_ended"):
            with self._changed:
                self._noticed += messages
                self._is_changed = True
                self._changed.notify()

    def close(self, timeout: float = LAST_TIMEOUT_S) -> None:
        """Send what waits, and return after `timeout` seconds and a few more at the latest."""
        with self._changed:
            self._over = True
            self._ended_at = self._ended_at or self._clock()
            self._changed.notify()
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._abandoned = True
            self._kill()
            self._thread.join(_KILL_TIMEOUT_S)

    # In the thread

    def _run(self) -> None:
        ledger: Ledger | None = None
        wait, over = 0.0, False
        with ExitStack() as opened:
            while not over:
                over = self._wait(wait)
                try:
                    if ledger is None:
                        if (ledger := self._open_ledger()) is None:
                            self._is_new, wait = True, _NO_LEDGER_WAIT_S
                            continue
                        opened.callback(ledger.close)
                    with ledger.within(_LEDGER_TIMEOUT_S):
                        wait = self._look(ledger, over=over)
                    if over and self._is_view_old and not self._abandoned:
                        time.sleep(_OLD_VIEW_WAIT_S)
                        over = False
                except (BenchfleetError, OSError) as error:
                    wait = LOOK_EVERY_S
                    if over and self._addresses:
                        self._warn(f"the last notifications were not sent: {error}")

    def _wait(self, seconds: float) -> bool:
        """Wait for news or so many seconds; whether the run is over."""
        with self._changed:
            if not self._over and not self._is_changed:
                self._changed.wait(seconds)
            self._is_changed = False
            return self._over

    def _look(self, ledger: Ledger, *, over: bool) -> float:
        """Record what happened and send what is due; seconds until the next look."""
        if (outbox := self._outbox) is None:
            name, settings = self._name, self._settings
            outbox = Outbox(ledger, name, settings, self._clock, is_new=self._is_new)
            self._outbox = outbox
            outbox.read()
            self._check_addresses()  # a wrong one is reported at the start
        outbox.read()
        outbox.confirm()
        while self._noticed:
            outbox.add(self._noticed[0])
            self._noticed.popleft()
        self._report_end(ledger, outbox)
        is_pausing = self._clock() < self._retry_at and not over
        if not self._addresses or self._abandoned or is_pausing:
            return LOOK_EVERY_S
        if messages := outbox.claim(ends=over):
            self._send_messages(outbox, messages)
        wait = outbox.wait()
        return LOOK_EVERY_S if wait is None else min(LOOK_EVERY_S, wait)

    def _send_messages(self, outbox: Outbox, messages: Sequence[Message]) -> None:
        delivery = self._deliver(f"benchfleet: {self._campaign}", body_of(messages))
        if delivery.failed + delivery.unknown < len(self._addresses):
            outbox.sent()
        else:
            self._retry_at = self._clock() + RETRY_S
            outbox.give_back(perhaps_sent=delivery.unanswered)

    def _report_end(self, ledger: Ledger, outbox: Outbox) -> None:
        """Report that all cells of the campaign have ended, or that a run ended before."""
        writer, progress = self._writer, self._progress
        if not writer.ran or writer.interrupted:
            return
        is_run_over = writer.ended and not self._is_worker
        self._is_view_old = self._has_old_view(ledger)
        if self._is_view_old:
            return
        if self._is_end_reported or not (is_run_over or progress.ended >= progress.total):
            return
        self._is_end_reported = True  # before the count: a cell that ends now resets it
        cells = self._cells()
        waiting = ledger.cells(states=("pending", "running"), fingerprints=cells)
        if not is_run_over and next(iter(waiting), None):
            self._is_end_reported = False
            return
        records = with_skipped(ledger, ledger.cells(fingerprints=cells))
        states = counts(records, total=len(records) if cells is None else len(cells))
        del states["total"]
        for message in writer.failures(states):  # also those of other workers
            outbox.add(message)
        if "campaign_done" not in self._settings.on:
            return
        if not states["pending"] + states["running"]:
            outbox.add(campaign_done(states))
        elif is_run_over:
            outbox.add(run_ended(self._name, states))
        else:
            self._is_end_reported = False

    def _has_old_view(self, ledger: Ledger) -> bool:
        """Whether the run ended, and the ledger does not know yet what others did until then."""
        return self._ended_at is not None and ledger.read_age() > self._clock() - self._ended_at

    def _check_addresses(self) -> None:
        """Warn of addresses that Apprise does not know."""
        if not self._addresses:
            return
        unknown = self._ask_apprise("", "").unknown
        if unknown:
            self._warn(
                f"{unknown} of {len(self._addresses)} addresses of notify.to are unknown to "
                "Apprise; see its list of services"
            )
        if unknown == len(self._addresses):
            self._addresses = ()

    def _deliver(self, title: str, body: str) -> Delivery:
        """Send a message, and warn of the addresses that it did not reach."""
        delivery = self._ask_apprise(title, body)
        if delivery.failed:
            total, why = len(self._addresses), ", ".join(delivery.reasons)
            message = f"a notification did not reach {delivery.failed} of {total} addresses"
            self._warn(f"{message}: {why}" if why else message)
        return delivery

    def _ask_apprise(self, title: str, body: str) -> Delivery:
        def started(kill: Callable[[], None]) -> None:
            self._kill = kill
            if self._abandoned:
                kill()

        addresses = [secret.reveal() for secret in self._addresses]
        return self._send(addresses, title, body, started=started)


def _nothing() -> None:
    pass


def body_of(messages: Sequence[Message]) -> str:
    """One line a message; equal ones once, with their number."""
    numbers = Counter(message.text for message in messages)
    lines = [text if count == 1 else f"{text} ({count} times)" for text, count in numbers.items()]
    more = len(lines) - _MAX_LINES
    return "\n".join([*lines[:_MAX_LINES], *([f"and {more} more"] if more > 0 else [])])


@contextlib.contextmanager
def notifying(
    study: Study,
    warn: Callable[[str], None],
    *,
    cells: Sequence[Cell] | None = None,
    is_worker: bool = False,
) -> Iterator[Notifier | None]:
    """The notifier of a run or a worker; None if the campaign asks for no messages.

    `cells` are those of a trial, which is not part of the campaign. Raises `CampaignError` if a run
    cannot read the addresses, and `MissingExtra` without Apprise. A worker only warns then, because
    other workers send its messages.
    """
    settings = study.campaign.notify
    if settings is None:
        yield None
        return
    addresses: Sequence[Secret] = ()
    try:
        addresses = read_addresses(settings, study.campaign.folder)
    except (CampaignError, MissingExtra) as error:
        if not is_worker:
            raise
        why = error.mistakes[0].message if isinstance(error, CampaignError) else error
        warn(f"this worker sends no notifications: {why}")

    @cache
    def fingerprints() -> Collection[str] | None:
        if cells is None and study.campaign.file is None:
            return None
        return {cell.fingerprint for cell in (study.cells() if cells is None else cells)}

    notifier = Notifier(
        settings,
        study.campaign.name,
        addresses,
        open_ledger=study.open_existing_ledger,
        cells=fingerprints,
        is_worker=is_worker,
        warn=warn,
    )
    try:
        yield notifier
    finally:
        notifier.close()
