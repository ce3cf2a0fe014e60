"""The cells that runners hold: on which host, since when, and how far they are."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.slots import BEGAN
from benchfleet.domain.worker_progress import SlotProgress, WorkerProgress

from .base import Ledger


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A running cell, and who holds it."""

    record: CellRecord
    host: str  # "" where its runner did not say
    since: float  # seconds since the epoch by the ledger's clock; 0 where that is not known
    progress: SlotProgress | None = None  # None where its runner has not reported the cell yet
    progress_age: float = 0.0  # seconds

    @property
    def lease_lasts(self) -> bool:
        """Whether the lease has not expired."""
        return (self.record.expires_in or 0.0) > 0.0

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "cell": self.record.path,
            "runner": self.record.runner,
            "host": self.host,
            "since": self.since,
            "lease_seconds": self.record.expires_in,
            "progress": asdict(self.progress) if self.progress else None,
            "progress_age": self.progress_age if self.progress else None,
        }

    def with_progress(self, reports: Iterable[WorkerProgress]) -> Holder:
        """The same with the progress of its cell, if a report of its runner has it."""
        for report in reports:
            if report.runner == self.record.runner:
                for slot in report.slots:
                    if slot.cell == self.record.path:
                        return replace(self, progress=slot, progress_age=report.age)
        return self


def holders(
    ledger: Ledger,
    records: Iterable[CellRecord],
    reports: Sequence[WorkerProgress] | None = None,
) -> list[Holder]:
    """Who holds those of the records that are running, by the progress in these reports; by that in
    the ledger where None are given."""
    running = {record.fingerprint: record for record in records if record.state == "running"}
    if not running:
        return []
    hosts = {event.data["runner"]: event.data for event in ledger.events(kinds={BEGAN})}
    since = {
        event.fingerprint: event.at
        for event in ledger.events(fingerprints=running, kinds={"claimed"})
        if event.data["token"] == running[event.fingerprint].token  # type: ignore[index]
    }
    reports = ledger.progress() if reports is None else reports
    holders_found = []
    for fingerprint, record in running.items():
        began = hosts.get(record.runner, {})
        host = str(began.get("host") or began.get("machine") or "")
        holder = Holder(record=record, host=host, since=since.get(fingerprint, 0.0))
        holders_found.append(holder.with_progress(reports))
    return holders_found


def clocks_ahead(running: Iterable[Holder], reports: Iterable[WorkerProgress]) -> dict[str, float]:
    """The hosts of running cells whose clocks differ from ours, and by how many seconds."""
    now = time.time()
    hosts = {one.record.runner: one.host for one in running}
    ahead = {hosts[one.runner]: one.clock_ahead(now) for one in reports if one.runner in hosts}
    return {host: round(seconds, 1) for host, seconds in sorted(ahead.items()) if seconds}


def silent_hosts(running: Iterable[Holder], lease: float) -> dict[str, float]:
    """The hosts of running cells whose runners have not reported for half a lease, and for how many
    seconds; a runner reports every fifth. Not those whose leases are over: any runner takes them.
    """
    limit = lease / 2
    return {
        one.host: round(one.progress_age, 1)
        for one in running
        if one.host and one.progress_age > limit and 0 < (one.record.expires_in or 0) < limit
    }
