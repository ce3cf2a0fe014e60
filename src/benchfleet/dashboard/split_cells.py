"""The cells that are split now, and the states of their parts, as a fold of the ledger's events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.event import Event
from benchfleet.domain.part import FOLLOWED, Splits
from benchfleet.domain.state import FINAL_STATES


@dataclass(slots=True)
class PartState:
    """What one part does now."""

    whole: str  # the fingerprint of its cell
    state: str = "pending"
    runner: str = ""
    path: str = ""  # "" until its record was read

    @property
    def has_ended(self) -> bool:
        return self.state in FINAL_STATES


class SplitCells:
    """The parts of split cells."""

    def __init__(self) -> None:
        self._splits = Splits()
        self._of: dict[str, list[PartState]] = {}
        self.parts: dict[str, PartState] = {}  # by fingerprint
        self.by_path: dict[str, tuple[str, PartState]] = {}  # with the part's fingerprint

    def parts_of(self, whole: str) -> Sequence[PartState]:
        """The parts of a cell; none if it is not split."""
        return self._of.get(whole, ())

    @property
    def ended(self) -> float:
        """The parts that ended, each as its share of its cell."""
        return sum(sum(p.has_ended for p in parts) / len(parts) for parts in self._of.values())

    @property
    def unread(self) -> list[str]:
        """The parts whose records are still to be read."""
        return [name for name, part in self.parts.items() if not part.path]

    def take_tokens(self, records: Iterable[CellRecord]) -> None:
        """Take the leases of running cells, so that a split under one of them counts."""
        self._splits.follow(
            Event(kind="claimed", fingerprint=str(one.fingerprint), data={"token": one.token})
            for one in records
        )

    def take(self, event: Event) -> str:
        """Follow an event; the fingerprint of the cell whose parts it changed, "" for none."""
        if event.kind in FOLLOWED:
            for split in self._splits.follow([event]):
                parts = {name: PartState(whole=split.fingerprint) for name in split.parts}
                self.parts.update(parts)
                self._of[split.fingerprint] = list(parts.values())
        name = event.fingerprint
        if name in self._of:
            if name not in self._splits.current:  # it has ended
                self._forget(name)
            return name
        part = self.parts.get(name)
        if part is None:
            return ""
        _apply(part, event)
        return part.whole

    def take_records(self, records: Iterable[CellRecord]) -> set[str]:
        """Take the records of parts; the fingerprints of their cells."""
        wholes = set()
        for record in records:
            part = self.parts.get(str(record.fingerprint))
            if part is not None:
                part.state, part.path = record.state, record.path
                part.runner = record.runner if record.state == "running" else ""
                self.by_path[part.path] = str(record.fingerprint), part
                wholes.add(part.whole)
        return wholes

    def _forget(self, whole: str) -> None:
        del self._of[whole]
        for name in [name for name, part in self.parts.items() if part.whole == whole]:
            self.by_path.pop(self.parts.pop(name).path, None)


def _apply(part: PartState, event: Event) -> None:
    if event.kind == "claimed":
        part.state, part.runner = "running", str(event.data["runner"])
        return
    if event.kind == "finished":
        outcome = event.data["outcome"]
        part.state = outcome["state"] if outcome.get("retry_in") is None else "pending"
    elif event.kind == "cancel_asked" and not part.has_ended:
        part.state = "cancelled"
    elif event.kind in ("released", "reaped", "retry_asked"):
        part.state = "pending"
    part.runner = ""
