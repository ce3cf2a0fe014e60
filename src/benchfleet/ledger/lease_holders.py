"""The cells that runners hold: on which host, and since when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchfleet.domain.attempt import CellRecord, Lease
from benchfleet.domain.slots import BEGAN

from .base import Ledger


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A running cell, and who holds it."""

    record: CellRecord
    host: str  # "" where its runner did not say
    since: float  # seconds since the epoch by the ledger's clock; 0 where that is not known

    @property
    def lease(self) -> Lease:
        """The lease to release."""
        return Lease(
            fingerprint=self.record.fingerprint,
            attempt=self.record.attempt,
            token=self.record.token,
            expires_in=0.0,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "cell": self.record.path,
            "runner": self.record.runner,
            "host": self.host,
            "since": self.since,
            "lease_seconds": self.record.expires_in,
        }


def holders(ledger: Ledger, records: Iterable[CellRecord]) -> list[Holder]:
    """Who holds those of the records that are running."""
    running = {record.fingerprint: record for record in records if record.state == "running"}
    if not running:
        return []
    hosts = {event.data["runner"]: event.data for event in ledger.events(kinds={BEGAN})}
    since = {
        event.fingerprint: event.at
        for event in ledger.events(fingerprints=running, kinds={"claimed"})
        if event.data["token"] == running[event.fingerprint].token  # type: ignore[index]
    }
    holders_found = []
    for fingerprint, record in running.items():
        began = hosts.get(record.runner, {})
        host = str(began.get("host") or began.get("machine") or "")
        holders_found.append(Holder(record=record, host=host, since=since.get(fingerprint, 0.0)))
    return holders_found
