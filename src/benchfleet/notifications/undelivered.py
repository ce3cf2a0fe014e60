"""Sends what earlier runs and workers of a campaign could not, where nothing else is to be done."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchfleet.domain.notification import NotificationSettings
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.base import Ledger
from benchfleet.notifications.notifier import notifying
from benchfleet.notifications.outbox import Outbox
from benchfleet.study import Study


def send_undelivered(study: Study, warn: Callable[[str], None]) -> None:
    """Send the messages that wait in the ledger; starts no process where none does.

    Raises `CampaignError` if the addresses cannot be read, and `MissingExtra` without Apprise.
    """
    settings = study.campaign.notify
    if settings is None:
        return
    try:
        is_any = study.query(lambda ledger: _is_any(ledger, settings), default=False)
    except (BenchfleetError, OSError) as error:
        warn(f"the last notifications were not sent: {error}")
        return
    if is_any:
        with notifying(study, warn):
            pass  # at its end it sends what waits


def _is_any(ledger: Ledger, settings: NotificationSettings) -> bool:
    """Whether a message waits that no other worker is sending."""
    outbox = Outbox(ledger, "", settings, time.monotonic)
    outbox.read()
    return outbox.wait(ends=True) == 0.0
