"""The reading side of a ledger, for reports: counts, and the attempts of a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.event import BY_HAND, RUNNER_KILLED, STORED, Event
from benchfleet.domain.part import SPLIT
from benchfleet.domain.race import RACE_EVENTS, RaceHistory
from benchfleet.domain.state import STATES
from benchfleet.domain.usage import Usage, UsageTotal
from benchfleet.ledger.base import Ledger

Ending = Literal["", "finished", "released", "reaped", "cancelled"]
_ENDINGS: dict[str, Ending] = {
    "finished": "finished",
    "released": "released",
    "reaped": "reaped",
    "cancel_asked": "cancelled",
}
ATTEMPT_EVENTS = frozenset({"claimed", *_ENDINGS})  # events that attempts are read from


def counts(records: Iterable[CellRecord], *, total: int) -> dict[str, int]:
    """How many of `total` cells are in each state, and ``total``; a cell without a record is
    pending."""
    by_key = Counter(record.state for record in records)
    by_key["pending"] += total - sum(by_key.values())
    return {"total": total, **{state: by_key[state] for state in STATES}}


def with_skipped(ledger: Ledger, records: Iterable[CellRecord]) -> list[CellRecord]:
    """The records as people see them: cells that a race cancelled are ``skipped``."""
    records = list(records)
    if not any(record.state == "cancelled" for record in records):
        return records
    return RaceHistory.of(ledger.events(kinds=RACE_EVENTS)).as_skipped(records)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try of a cell, by the events of its claim and its end. Times are seconds since the epoch
    by the ledger's clock."""

    claimed: Event
    ended: Event | None = None  # None while it runs

    @property
    def attempt(self) -> int:
        """1 for the first."""
        return int(self.claimed.data["attempt"])

    @property
    def token(self) -> int:
        return int(self.claimed.data["token"])

    @property
    def runner(self) -> str:
        return str(self.claimed.data["runner"])

    @property
    def claimed_at(self) -> float:
        return self.claimed.at

    @property
    def ended_at(self) -> float | None:
        """None while it runs."""
        return self.ended.at if self.ended else None

    @property
    def how(self) -> Ending:
        """``""`` while it runs."""
        return _ENDINGS[self.ended.kind] if self.ended else ""

    @cached_property
    def outcome(self) -> Outcome | None:
        """None unless it was finished."""
        if self.ended is None or self.ended.kind != "finished":
            return None
        return Outcome.from_dict(self.ended.data["outcome"])

    @property
    def was_taken(self) -> bool:
        """Whether its result came from a result cache, so that nothing ran."""
        return bool(self.outcome and self.outcome.taken_from)


def attempts(ledger: Ledger, fingerprint: str) -> list[Attempt]:
    """The attempts of one cell, oldest first."""
    return attempts_by_cell(ledger.events(fingerprints={fingerprint})).get(fingerprint, [])


def attempts_by_cell(events: Iterable[Event]) -> dict[str, list[Attempt]]:
    """The attempts of every cell in the events, in one pass over them.

    An attempt that was reaped and finished late after all counts as finished.
    """
    by_key: dict[str, list[Attempt]] = {}
    for event in events:
        if event.kind == "claimed":
            by_key.setdefault(event.fingerprint, []).append(Attempt(claimed=event))
        elif event.kind in _ENDINGS and by_key.get(event.fingerprint):
            last = by_key[event.fingerprint][-1]
            if last.ended is None or event.kind == "finished":
                by_key[event.fingerprint][-1] = Attempt(claimed=last.claimed, ended=event)
    return by_key


def find_results_elsewhere(
    events: Iterable[Event], began: Iterable[Event], digests: Mapping[str, str], *, own_folder: str
) -> dict[str, str]:
    """Where the results with these digests were seen last, by fingerprint: a place, or a host that
    keeps another folder than `own_folder`. `events` are of the cells, `began` of their runners."""
    runners = {event.data.get("runner", ""): event.data for event in began}
    by_key: dict[str, str] = {}
    for event in events:
        name = event.fingerprint
        if event.kind == STORED and event.data["digest"] == digests.get(name):
            by_key[name] = str(event.data["place"])
        elif event.kind == "finished" and event.data["outcome"].get("digest") == digests.get(name):
            began_as = runners.get(event.data["runner"], {})
            if began_as.get("folder") not in (None, "", own_folder):
                by_key.setdefault(name, str(began_as.get("host") or began_as["machine"]))
    return by_key


BILLED = ("finished", "used", "reaped", "released", SPLIT)  # events that a bill is made of


def host_of(event: Event) -> str:
    """The host of such an event; "" if it is not known."""
    outcome = event.data.get("outcome") or {}
    return str(event.data.get("host") or outcome.get("host") or "")


def bills(events: Iterable[Event]) -> dict[str, UsageTotal]:
    """What the attempts of every cell used up together, whatever came of them, from the events of
    the kinds `BILLED`. Of an attempt whose runner died it is not known. What the parts of a split
    cell used is the cell's."""
    total: dict[str, UsageTotal] = {}
    for fingerprint, used in _used(events):
        total.setdefault(fingerprint, UsageTotal()).add(Usage.from_dict(used) if used else None)
    return total


def bill(events: Iterable[Event], fingerprints: Collection[str]) -> UsageTotal:
    """What the attempts of these cells used up, all in one: as `bills`, for less."""
    total = UsageTotal()
    for fingerprint, used in _used(events):
        if fingerprint in fingerprints:
            total.add(Usage.from_dict(used) if used else None)
    return total


def _was_lost(release: Event) -> bool:
    """Whether the attempt began and its runner may never say what it used."""
    return str(release.data.get("reason", "")).startswith((RUNNER_KILLED, BY_HAND))


def _used(events: Iterable[Event]) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """The cell of each attempt, and what the attempt used up; None where it is not known."""
    by_key: dict[tuple[str, int], Mapping[str, Any] | None] = {}
    whole_of: dict[str, str] = {}  # the whole cell of each part
    for event in events:
        key = event.fingerprint, event.data["token"]
        if event.kind == SPLIT:
            whole_of |= dict.fromkeys(event.data["parts"], event.fingerprint)
        elif event.kind == "finished":
            if event.data["outcome"].get("taken_from"):
                by_key.pop(key, None)  # nothing ran
            else:
                by_key[key] = event.data["outcome"].get("usage")
        elif event.kind == "used":
            by_key[key] = event.data["usage"]
        elif event.kind == "reaped" or _was_lost(event):
            by_key.setdefault(key, None)
    for (fingerprint, _), used in by_key.items():
        yield whole_of.get(fingerprint, fingerprint), used
