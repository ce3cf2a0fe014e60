"""The parts of split cells, for those who look at a ledger from outside."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.part import FOLLOWED, SPLIT, Splits
from benchfleet.ledger.base import Ledger


@dataclass(frozen=True, kw_only=True)
class SplitCell:
    """A cell that is split now, and how far it is."""

    path: str
    ended: int  # parts
    parts: int

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {"cell": self.path, "parts_ended": self.ended, "parts": self.parts}


def parts_of(ledger: Ledger, fingerprints: Collection[str]) -> dict[str, list[str]]:
    """The parts of those of the cells whose split is in force, all by fingerprint."""
    events = {
        event.fingerprint: event
        for event in ledger.events(kinds={SPLIT})
        if event.fingerprint in fingerprints
    }
    if not events:
        return {}
    splits = Splits()
    splits.follow(ledger.events(fingerprints=events, kinds=FOLLOWED))
    return {whole: list(splits.current[whole].parts) for whole in events if whole in splits.current}


def joined_parts(ledger: Ledger, records: Iterable[CellRecord]) -> dict[str, CellRecord]:
    """The parts of those of the cells that have their result, each with its cell."""
    done = {str(record.fingerprint): record for record in records if record.state == "success"}
    return {
        part: done[event.fingerprint]
        for event in ledger.events(kinds={SPLIT})
        if event.fingerprint in done
        for part in event.data["parts"]
    }
