"""Who holds which cells, on which host and since when; and taking cells from their holders."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from benchfleet.bench import Bench
from benchfleet.cli import unbegun
from benchfleet.cli.words import moment, printable
from benchfleet.domain.attempt import CellRecord, Lease
from benchfleet.domain.slots import BEGAN
from benchfleet.domain.words import counted, duration
from benchfleet.errors import BenchfleetError, LedgerAbsent
from benchfleet.ledger.base import Ledger


@dataclass(frozen=True, kw_only=True)
class Held:
    """A cell that a runner holds."""

    record: CellRecord
    host: str  # "" where its runner did not say
    since: float  # seconds since the epoch by the ledger's clock; 0 where that is not known

    @property
    def lease(self) -> Lease:
        """What is to be given back."""
        return Lease(
            fingerprint=self.record.fingerprint,
            attempt=self.record.attempt,
            token=self.record.token,
            expires_in=0.0,
        )

    def __str__(self) -> str:
        """``runner 8f3a on lab2, since 14:02, lease good for 40 s``"""
        on = f" on {self.host}" if self.host else ""
        since = f", since {moment(self.since)}" if self.since else ""
        left = self.record.expires_in or 0.0
        lease = f"good for {duration(left)}" if left > 0 else f"ran out {duration(-left)} ago"
        return f"runner {self.record.runner[:8]}{on}{since}, lease {lease}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "cell": self.record.path,
            "runner": self.record.runner,
            "host": self.host,
            "since": self.since,
            "lease_seconds": self.record.expires_in,
        }


def ledger_of(bench: Bench) -> Ledger:
    """The campaign's ledger. Raises LedgerAbsent where there is none yet."""
    ledger = bench.existing_ledger()
    if ledger is None:
        raise LedgerAbsent(unbegun.words(bench))
    return ledger


def tell(
    arguments: argparse.Namespace, bench: Bench, key: str, given: Sequence[Held], none: str
) -> None:
    """Print the cells that are pending again, under `key` of the JSON; `none` where none is."""
    if arguments.json:
        told = {"campaign": bench.campaign.name, key: [one.to_dict() for one in given]}
        print(json.dumps(told, indent=2))
        return
    for one in given:
        print(printable(f"  pending again  {one.record.path}  (was held by {one})"))
    if not given:
        print(printable(none))


def held(ledger: Ledger, records: Iterable[CellRecord]) -> list[Held]:
    """Those of the records that are running, with their holders."""
    running = {record.fingerprint: record for record in records if record.state == "running"}
    if not running:
        return []
    hosts = {event.data["runner"]: event.data for event in ledger.events(kinds={BEGAN})}
    since = {
        event.fingerprint: event.at
        for event in ledger.events(among=running, kinds={"claimed"})
        if event.data["token"] == running[event.fingerprint].token  # type: ignore[index]
    }
    found = []
    for fingerprint, record in running.items():
        began = hosts.get(record.runner, {})
        host = str(began.get("host") or began.get("machine") or "")
        found.append(Held(record=record, host=host, since=since.get(fingerprint, 0.0)))
    return found


def holders(bench: Bench, records: Sequence[CellRecord]) -> list[Held]:
    """Who holds those of the records that are running."""
    ledger = None
    if any(record.state == "running" for record in records):
        ledger = bench.existing_ledger()
    if ledger is None:
        return []
    with closing(ledger):
        return held(ledger, records)


def choose(arguments: argparse.Namespace, found: Sequence[Held]) -> list[Held]:
    """Those that --host, --runner and --cell name; all of them where none is said."""
    return [
        one
        for one in found
        if (not arguments.host or one.host in arguments.host)
        and (not arguments.runner or one.record.runner.startswith(tuple(arguments.runner)))
        and (
            not arguments.cell
            or any(
                fnmatchcase(name, glob)
                for glob in arguments.cell
                for name in (one.record.path, one.record.id)
            )
        )
    ]


def released(ledger: Ledger, meant: Sequence[Held], reason: str) -> list[Held]:
    """Give the cells back, no try used up; those that were held still. Their tokens grow, so that
    whoever held them can finish nothing any more."""
    if not meant:
        return []
    ledger.release([one.lease for one in meant], reason)
    among = {str(one.record.fingerprint) for one in meant}
    now = {record.fingerprint: record for record in ledger.cells(among=among)}
    return [one for one in meant if now[one.record.fingerprint].token != one.record.token]


def agreed(arguments: argparse.Namespace, meant: Sequence[Held], what: str) -> bool:
    """Whether whoever asks is sure. Raises BenchfleetError where nobody can be asked."""
    if arguments.yes or not meant:
        return True
    lines = "\n".join(f"  {one.record.path}  ({one})" for one in meant)
    cells = counted(len(meant), "cell")
    if not sys.stdin.isatty():
        raise BenchfleetError(f"this would {what} {cells}; say --yes\n{lines}")
    print(f"{lines}\n{what} {cells}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
