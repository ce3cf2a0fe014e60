"""Orders about cells: retry, cancel, release."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.event import BY_HAND, Event
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.lease_holders import Holder
from benchfleet.orders.base import Origin

RETRY, CANCEL = "retry_asked", "cancel_asked"


def retry(ledger: Ledger, records: Sequence[CellRecord], origin: Origin) -> list[str]:
    """Put cells in a final state back to pending; their paths."""
    return _record(ledger, RETRY, records, origin)


def cancel(ledger: Ledger, records: Sequence[CellRecord], origin: Origin) -> list[str]:
    """Cancel pending and running cells; the paths of those that are cancelled now."""
    _record(ledger, CANCEL, records, origin)
    fingerprints = [record.fingerprint for record in records]
    return [one.path for one in ledger.cells(states=["cancelled"], fingerprints=fingerprints)]


def release(ledger: Ledger, holders: Sequence[Holder], reason: str) -> list[Holder]:
    """Release the leases without using up a try, and return those that were still held. Their
    tokens grow, so a former holder can finish nothing."""
    if not holders:
        return []
    ledger.release([one.record.lease for one in holders], f"{BY_HAND}{reason}")
    among = {str(one.record.fingerprint) for one in holders}
    now = {record.fingerprint: record for record in ledger.cells(fingerprints=among)}
    return [one for one in holders if now[one.record.fingerprint].token != one.record.token]


def _record(ledger: Ledger, kind: str, records: Sequence[CellRecord], origin: Origin) -> list[str]:
    for record in records:
        ledger.record(Event(kind=kind, fingerprint=record.fingerprint, data=origin.data()))
    return [record.path for record in records]
