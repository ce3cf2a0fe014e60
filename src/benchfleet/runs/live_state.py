"""Writes the live state of a run, in a thread of its own."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchfleet.errors import LedgerError
from benchfleet.ledger.addresses import are_distinct
from benchfleet.results.layout import Layout
from benchfleet.runner.progress import Notice, Observer, Progress
from benchfleet.runner.run_end import RunEnd
from benchfleet.runs import registry as records
from benchfleet.runs.process import Process
from benchfleet.runs.registry import Record
from benchfleet.study import Study

WRITE_INTERVAL_S = 0.5  # seconds between two looks at how it stands
REFRESH_S = 3.0  # seconds between two writes while cells run and report nothing
_WRITE_PAUSE_FACTOR = 50  # pause at least this many times the duration of a write
DETACHED = "BENCHFLEET_DETACHED"  # the log of a detached run, which names its record too


_ENCODER = json.JSONEncoder(default=str)


def line_of(notice: Notice, progress: Progress) -> dict[str, Any]:
    """A notice as one JSON object."""
    return {
        "time": time.time(),
        "kind": notice.kind,
        "cell": notice.cell,
        "slot": notice.slot,
        "message": notice.message,
        "data": dict(notice.data),
        "ending": notice.ending,
        "total": progress.total,
        "ended": progress.ended,
    }


class LiveStateWriter:
    """Observes a run and writes its record. A full disk never stops the run."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._lines: deque[str] = deque()
        self._progress: Progress | None = None
        self._counts: Mapping[str, Any] = {}
        self._changed = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="presence", daemon=True)
        with contextlib.suppress(OSError):
            records.register(record)
        self._thread.start()

    def __call__(self, notice: Notice, progress: Progress) -> None:
        self._progress = progress
        if notice.kind == "cell_progress":  # which is too many, and in the state anyway
            self._wake()
            return
        # Taken here, where they add up; the loop goes on changing them.
        self._counts = {
            "total": progress.total,
            "reused": progress.reused,
            "states": dict(progress.states),
        }
        with contextlib.suppress(TypeError, ValueError):  # JSON cannot hold it
            self._lines.append(_ENCODER.encode(line_of(notice, progress)))
        self._wake()

    def _wake(self) -> None:
        if not self._changed.is_set():  # most often it is, and to ask takes less
            self._changed.set()

    def ended(self, end: RunEnd) -> None:
        """The run ended, and all is written that it leaves."""
        impossible = [[cell.fingerprint, why] for cell, why in end.impossible]
        counted_at = time.time() - end.counts_age if end.counts_age else None
        fields = {"interrupted": end.interrupted, "broken": end.broken, "ran": end.ran}
        fields["counted_at"] = counted_at
        self._record = replace(
            self._record, end={**fields, "seconds": end.seconds, "impossible": impossible}
        )

    def close(self, error: BaseException | None = None) -> None:
        """Write down the last of it, and the error that ended it."""
        if self._record.end is None:
            message = (str(error) or type(error).__name__) if error else "it was abandoned"
            self._record = replace(self._record, end={"error": message})
        self._over.set()
        self._changed.set()
        self._thread.join()
        records.unregister(self._record)

    def _keep(self) -> None:
        while not self._over.is_set():
            if not self._changed.wait(REFRESH_S) and not self._is_at_work():
                continue
            self._changed.clear()
            began = time.monotonic()
            self._write()
            self._over.wait(max(WRITE_INTERVAL_S, _WRITE_PAUSE_FACTOR * (time.monotonic() - began)))
        self._write()

    def _is_at_work(self) -> bool:
        """Whether a slot runs a cell: the time that is left changes without a notice."""
        slots = list(self._progress.slots.values()) if self._progress else []
        return any(slot.cell for slot in slots)

    def _write(self) -> None:
        # RuntimeError: the loop changed something meanwhile; it is written down the next time.
        with contextlib.suppress(OSError, RuntimeError, TypeError, ValueError):
            if self._lines:
                text = ""
                while self._lines:
                    text += self._lines.popleft() + "\n"
                with open(self._record.happened, "a", encoding="utf-8") as file:
                    file.write(text)
            if self._progress is not None:
                self._record = replace(self._record, state=self._state(self._progress))
            records.write(self._record)

    def _state(self, progress: Progress) -> Mapping[str, Any]:
        return {
            **self._counts,
            "slots": [asdict(slot) for slot in list(progress.slots.values())],
            "outlook": asdict(progress.eta) if progress.eta else None,
            "awaited": dict(progress.awaited),
        }


@contextlib.contextmanager
def registered_run(
    study: Study, *, ends_on: str, command: Mapping[str, Any] | None = None, metrics: str = ""
) -> Iterator[LiveStateWriter]:
    """Register this run for `attach` and `stop` while the block runs.

    Raises LedgerError where a run with another ledger is active in the same folder: both would
    run the same cells in the same folders.
    """
    ledger = study.home.address
    refuse_another(study.layout, ledger)
    log = os.environ.pop(DETACHED, "")  # slots, and what they start, are not detached runs
    file = Path(log).with_suffix(".json") if log else records.new_file(study.layout)
    feed = LiveStateWriter(
        Record(
            file=file,
            process=Process.own(),
            campaign=study.campaign.name,
            results=study.layout.root,
            ledger=ledger,
            began_at=time.time(),
            ends_on=ends_on,
            log=log,
            metrics=metrics,
            command=command or {},
        )
    )
    try:
        refuse_another(study.layout, ledger)  # that began at the same moment: it sees us, or we it
        yield feed
    except BaseException as error:
        feed.close(error)
        raise
    feed.close()


def refuse_another(layout: Layout, ledger: str) -> None:
    """Raise LedgerError where a run of this machine with another ledger is active in the folder."""
    for run in records.runs_of(layout):
        if run.is_running and run.ledger and are_distinct(run.ledger, ledger):
            where = run.ledger.removeprefix("sqlite:")
            raise LedgerError(
                f"a run with another ledger, {where}, is active in {layout.root} ({run.label});"
                " stop it first (`benchfleet stop`), or name another --results folder"
            )


def combine(first: Observer, second: Observer) -> Observer:
    """One observer that calls two."""

    def tell(notice: Notice, progress: Progress) -> None:
        first(notice, progress)
        second(notice, progress)

    return tell
