"""Seeing what a run does from another process, as its own observer would."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from benchfleet.runner.progress import Eta, Notice, Observer, Progress, Running
from benchfleet.runs import registry as records
from benchfleet.runs.registry import Record

T = TypeVar("T")
EVERY = 0.2  # seconds between two looks
EARLIER = 10  # things that happened before somebody came to look, and are shown
_TAIL = 2**16  # bytes in which these are looked for


@dataclass(kw_only=True)
class Seen(Progress):
    """The counts and slots of a run elsewhere, as they were written down."""

    when_told: int | None = None  # how many cells had ended when this was told

    @property
    def ended(self) -> int:
        return super().ended if self.when_told is None else self.when_told


class Follower:
    """Reads on in what a run writes down."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._read = max(0, self._size() - _TAIL)
        self._stamp: tuple[int, int] = (0, 0)

    def begin(self, tell: Observer, *, earlier: int) -> None:
        """Tell how it stands, and so many of the last things that happened."""
        self.record = records.read(self.record.file) or self.record
        lines = self._lines()
        last = lines[len(lines) - min(earlier, len(lines)) :]
        if not any(notice.kind == "run_started" for notice, _ in last):
            tell(Notice(kind="run_started"), seen(self.record))
        self._tell(last, tell)

    def look(self, tell: Observer) -> None:
        """Tell what is new."""
        lines = self._lines()
        stamp = self._stamped()
        if stamp != self._stamp:
            self._stamp = stamp
            self.record = records.read(self.record.file) or self.record
        self._tell(lines, tell)

    def _tell(self, lines: Sequence[tuple[Notice, int]], tell: Observer) -> None:
        for notice, ended in lines:
            tell(notice, seen(self.record, ended))
        tell(Notice(kind="cell_progress"), seen(self.record))

    def _lines(self) -> list[tuple[Notice, int]]:
        try:
            with open(self.record.happened, "rb") as file:
                file.seek(self._read)
                new = file.read()
        except OSError:
            return []
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        found = []
        for line in whole.splitlines():
            with contextlib.suppress(ValueError, LookupError, TypeError):  # a half one, at first
                said = json.loads(line)
                texts = {key: str(said[key]) for key in ("cell", "slot", "message")}
                notice = Notice(kind=said["kind"], data=dict(said["data"]), **texts)
                found.append((notice, int(said["ended"])))
        return found

    def _size(self) -> int:
        try:
            return os.stat(self.record.happened).st_size
        except OSError:
            return 0

    def _stamped(self) -> tuple[int, int]:
        try:
            found = os.stat(self.record.file)
        except OSError:
            return self._stamp
        return found.st_mtime_ns, found.st_ino


def seen(record: Record, ended: int | None = None) -> Seen:
    """How a run stood when it was written down; `ended` cells had, when what is told happened."""
    state = record.state
    slots = [_revived(Running, slot) for slot in state.get("slots", ())]
    return Seen(
        total=state.get("total", 0),
        reused=state.get("reused", 0),
        states=dict(state.get("states", {})),
        slots={slot.slot: slot for slot in slots},
        eta=_revived(Eta, state["outlook"]) if state.get("outlook") else None,
        when_told=ended,
    )


def _revived(kind: type[T], found: Mapping[str, Any]) -> T:
    """The dataclass that was written down, with those in it; what it does not know is left out."""
    known = {}
    for name, hint in get_type_hints(kind).items():
        if name in found:
            value = found[name]
            types = (t for t in (hint, *get_args(hint)) if isinstance(t, type))
            inner = next((t for t in types if is_dataclass(t)), None)
            if inner and isinstance(value, dict):
                value = _revived(inner, value)
            elif inner and isinstance(value, list):
                value = tuple(_revived(inner, one) for one in value)
            known[name] = value
    return kind(**known)


def follow(record: Record, tell: Observer, *, earlier: int = EARLIER) -> Iterator[Record]:
    """Tell what happens in a run until it is over, and so many things that happened before; gives
    its record after every look."""
    follower = Follower(record)
    follower.begin(tell, earlier=earlier)
    while True:
        over = (
            not follower.record.is_running
        )  # seen before the last look, so that this misses nothing
        follower.look(tell)
        yield follower.record
        if over:
            return
        time.sleep(EVERY)
