"""Seeing what a run does from another process, as its own observer would."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.ledger.addresses import are_distinct
from benchfleet.runner.progress import Eta, Notice, Observer, Progress, Running
from benchfleet.runs import registry as records
from benchfleet.runs.registry import Record
from benchfleet.study import Study

T = TypeVar("T")
POLL_INTERVAL_S = 0.2  # seconds between two looks
EARLIER_NOTICES = 10  # things that happened before somebody came to look, and are shown
_TAIL_BYTES = 2**16  # bytes in which these are looked for


@dataclass(kw_only=True)
class FollowedProgress(Progress):
    """The counts and slots of a run elsewhere, as they were written down."""

    ended_then: int | None = None  # cells that had ended at this notice

    @property
    def ended(self) -> int:
        return super().ended if self.ended_then is None else self.ended_then


class Follower:
    """Reads on in what a run writes down."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._read = max(0, self._size() - _TAIL_BYTES)
        self._stamp: tuple[int, int] = (0, 0)

    def begin(self, observer: Observer, *, earlier: int) -> None:
        """Report the current progress and the last `earlier` notices."""
        self.record = records.read(self.record.file) or self.record
        lines = self._lines()
        last = lines[len(lines) - min(earlier, len(lines)) :]
        if not any(notice.kind == "run_started" for notice, _ in last):
            observer(Notice(kind="run_started"), progress_of(self.record))
        self._replay(last, observer)

    def look(self, observer: Observer) -> None:
        """Report what is new."""
        lines = self._lines()
        stamp = self._stamped()
        if stamp != self._stamp:
            self._stamp = stamp
            self.record = records.read(self.record.file) or self.record
        self._replay(lines, observer)

    def _replay(self, lines: Sequence[tuple[Notice, int]], observer: Observer) -> None:
        for notice, ended in lines:
            observer(notice, progress_of(self.record, ended))
        observer(Notice(kind="cell_progress"), progress_of(self.record))

    def _lines(self) -> list[tuple[Notice, int]]:
        try:
            with open(self.record.happened, "rb") as file:
                file.seek(self._read)
                new = file.read()
        except OSError:
            return []
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        notices = []
        for line in whole.splitlines():
            with contextlib.suppress(ValueError, LookupError, TypeError):  # a half one, at first
                fields = json.loads(line)
                texts = {key: str(fields[key]) for key in ("cell", "slot", "message")}
                notice = Notice(
                    kind=fields["kind"],
                    data=dict(fields["data"]),
                    ending=bool(fields.get("ending")),
                    **texts,
                )
                notices.append((notice, int(fields["ended"])))
        return notices

    def _size(self) -> int:
        try:
            return os.stat(self.record.happened).st_size
        except OSError:
            return 0

    def _stamped(self) -> tuple[int, int]:
        try:
            status = os.stat(self.record.file)
        except OSError:
            return self._stamp
        return status.st_mtime_ns, status.st_ino


def progress_of(record: Record, ended: int | None = None) -> FollowedProgress:
    """The progress that a record holds; `ended` cells had ended at the notice."""
    state = record.state
    slots = [_revived(Running, slot) for slot in state.get("slots", ())]
    return FollowedProgress(
        total=state.get("total", 0),
        reused=state.get("reused", 0),
        states=dict(state.get("states", {})),
        slots={slot.slot: slot for slot in slots},
        eta=_revived(Eta, state["outlook"]) if state.get("outlook") else None,
        awaited=dict(state.get("awaited", {})),
        ended_then=ended,
    )


def local_progress(study: Study) -> list[WorkerProgress]:
    """The progress of the runs of this machine in the study's folder, on the study's ledger."""
    ledger, now = study.home.address, time.monotonic()
    running = [one for one in records.runs_of(study.layout) if one.is_running]
    own = [one for one in running if not one.ledger or not are_distinct(one.ledger, ledger)]
    return [progress_of(one).snapshot(one.file.stem, now) for one in own]


def _revived(kind: type[T], stored: Mapping[str, Any]) -> T:
    """The dataclass that was written down, with those in it; what it does not know is left out."""
    values = {}
    for name, hint in get_type_hints(kind).items():
        if name in stored:
            value = stored[name]
            types = (t for t in (hint, *get_args(hint)) if isinstance(t, type))
            inner = next((t for t in types if is_dataclass(t)), None)
            if inner and isinstance(value, dict):
                value = _revived(inner, value)
            elif inner and isinstance(value, list):
                value = tuple(_revived(inner, one) for one in value)
            values[name] = value
    return kind(**values)


def follow(
    record: Record, observer: Observer, *, earlier: int = EARLIER_NOTICES
) -> Iterator[Record]:
    """Report the notices of a run until it ends, and the `earlier` last ones before; yields its
    record after every poll."""
    follower = Follower(record)
    follower.begin(observer, earlier=earlier)
    while True:
        # seen before the last look, so that this misses nothing
        over = not follower.record.is_running
        follower.look(observer)
        yield follower.record
        if over:
            return
        time.sleep(POLL_INTERVAL_S)
