"""Writing down how a run stands while it goes, aside from the loop and never in its way."""

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
from benchfleet.runner.loop import RunEnd
from benchfleet.runner.progress import Notice, Observer, Progress
from benchfleet.runs import registry as records
from benchfleet.runs.process import Process
from benchfleet.runs.registry import Record
from benchfleet.study import Study

EVERY = 0.5  # seconds between two looks at how it stands
_SHARE = 50  # times as long as writing it down takes, at least: a thousand slots are long to tell
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
        "total": progress.total,
        "ended": progress.ended,
    }


class Feed:
    """Observes a run and writes it down. A disk that takes nothing keeps it from nothing."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._lines: deque[str] = deque()
        self._progress: Progress | None = None
        self._counts: Mapping[str, Any] = {}
        self._changed = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="presence", daemon=True)
        with contextlib.suppress(OSError):
            records.announce(record)
        self._thread.start()

    def __call__(self, notice: Notice, progress: Progress) -> None:
        self._progress = progress
        if notice.kind == "cell_progress":  # which is too many, and in the state anyway
            self._tell()
            return
        # Taken here, where they add up; the loop goes on changing them.
        self._counts = {
            "total": progress.total,
            "reused": progress.reused,
            "states": dict(progress.states),
        }
        with contextlib.suppress(TypeError, ValueError):  # it cannot be told in JSON
            self._lines.append(_ENCODER.encode(line_of(notice, progress)))
        self._tell()

    def _tell(self) -> None:
        if not self._changed.is_set():  # most often it is, and to ask takes less
            self._changed.set()

    def ended(self, end: RunEnd) -> None:
        """The run ended, and all is written that it leaves."""
        impossible = [[cell.fingerprint, why] for cell, why in end.impossible]
        counted_at = time.time() - end.counts_age if end.counts_age else None
        told = {"interrupted": end.interrupted, "broken": end.broken, "ran": end.ran}
        told["counted_at"] = counted_at
        self._record = replace(
            self._record, end={**told, "seconds": end.seconds, "impossible": impossible}
        )

    def close(self, error: BaseException | None = None) -> None:
        """Write down the last of it, and the error that ended it."""
        if self._record.end is None:
            said = (str(error) or type(error).__name__) if error else "it was given up"
            self._record = replace(self._record, end={"error": said})
        self._over.set()
        self._changed.set()
        self._thread.join()
        records.over(self._record)

    def _keep(self) -> None:
        while not self._over.is_set():
            self._changed.wait()
            self._changed.clear()
            began = time.monotonic()
            self._write()
            self._over.wait(max(EVERY, _SHARE * (time.monotonic() - began)))
        self._write()

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
        }


@contextlib.contextmanager
def announced(
    study: Study, *, ends_on: str, command: Mapping[str, Any] | None = None, metrics: str = ""
) -> Iterator[Feed]:
    """Have others find this run while the block goes on, and see what it does.

    Raises LedgerError where a run with another ledger goes on in the same folder: the two would
    run the same cells at once, in folders of the same names.
    """
    ledger = study.home.address
    _refuse_another(study.layout, ledger)
    log = os.environ.pop(DETACHED, "")  # slots, and what they start, are not detached runs
    file = Path(log).with_suffix(".json") if log else records.new_file(study.layout)
    feed = Feed(
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
        _refuse_another(study.layout, ledger)  # that began at the same moment: it sees us, or we it
        yield feed
    except BaseException as error:
        feed.close(error)
        raise
    feed.close()


def _refuse_another(layout: Layout, ledger: str) -> None:
    for run in records.runs_of(layout):
        if run.is_running and run.ledger and are_distinct(run.ledger, ledger):
            where = run.ledger.removeprefix("sqlite:")
            raise LedgerError(
                f"a run goes on in {layout.root} with another ledger, {where} ({run.shown});"
                " end it first (`benchfleet stop`), or name another --results folder"
            )


def both(first: Observer, second: Observer) -> Observer:
    """One observer that tells two."""

    def tell(notice: Notice, progress: Progress) -> None:
        first(notice, progress)
        second(notice, progress)

    return tell
