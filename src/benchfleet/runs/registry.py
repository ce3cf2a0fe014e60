"""What a run writes down of itself, and finding the runs that go on.

::

    <results>/.runners/<run>.json     who it is, and how it stands; replaced as a whole
                       <run>.jsonl    what happened, one JSON object a line
                       <run>.log      what a detached run printed

A record is no lock: the ledger alone decides who runs what. It says whom to ask, and shows what
only a runner knows. In the user's cache ``runs/<run>`` names the record, so that a run is found
from any folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import Any

from benchfleet.environment import own_cache
from benchfleet.results.layout import Layout
from benchfleet.runs.process import Process

FORMAT = 1
_MAX_KEPT_RECORDS = 10  # records of runs that ended


@dataclass(frozen=True, kw_only=True)
class Record:
    """One run, as it wrote itself down."""

    file: Path
    process: Process
    campaign: str
    results: Path
    ledger: str  # its address, without a password; "" where an older benchfleet did not tell it
    began_at: float  # seconds since the epoch
    ends_on: str = ""  # the signal that asks it to end; "" where nothing does but its program
    log: str = ""  # the file that takes what it prints, where it is detached
    metrics: str = ""  # the address at which Prometheus may ask it
    command: Mapping[str, Any] = field(default_factory=dict)  # the options of its command line
    state: Mapping[str, Any] = field(default_factory=dict)  # how it stands
    end: Mapping[str, Any] | None = None  # how it ended

    @property
    def happened(self) -> Path:
        """The file of what happened in it."""
        return self.file.with_suffix(".jsonl")

    @property
    def began(self) -> bool:
        """Whether it came to tell how it stands."""
        return bool(self.state)

    @property
    def is_running(self) -> bool:
        """Whether it goes on, on this machine."""
        return self.end is None and self.process.lives() is True

    @property
    def label(self) -> str:
        """``pid 4711, since 14:02``"""
        began = time.localtime(self.began_at)
        day = "" if time.strftime("%F", began) == time.strftime("%F") else "%F "
        return f"pid {self.process.pid}, since {time.strftime(f'{day}%H:%M', began)}"

    def request_stop(self) -> bool:
        """Ask it to end as Ctrl-C does; whether it was there to be asked."""
        return self.process.signal(Signals[self.ends_on])

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "process": vars(self.process),
            "campaign": self.campaign,
            "results": str(self.results),
            "ledger": self.ledger,
            "began_at": self.began_at,
            "ends_on": self.ends_on,
            "log": self.log,
            "metrics": self.metrics,
            "command": self.command,
            "state": self.state,
            "end": self.end,
        }


def read(file: Path) -> Record | None:
    """The record in this file; None where there is none, or none of ours."""
    try:
        stored = json.loads(file.read_bytes())
        if stored["format"] != FORMAT:
            return None
        end = stored["end"]
        return Record(
            file=file,
            process=Process.read(stored["process"]),
            campaign=str(stored["campaign"]),
            results=Path(stored["results"]),
            ledger=str(stored.get("ledger", "")),
            began_at=float(stored["began_at"]),
            ends_on=stored["ends_on"] if stored["ends_on"] in ("SIGINT", "SIGTERM") else "",
            log=str(stored["log"]),
            metrics=str(stored.get("metrics", "")),
            command=dict(stored["command"]),
            state=dict(stored["state"]),
            end=None if end is None else dict(end),
        )
    except (OSError, ValueError, LookupError, TypeError):
        return None


def runs_of(layout: Layout) -> list[Record]:
    """The runs of a results folder that are written down, the latest first."""
    files = sorted(layout.runners.glob("*.json"), reverse=True)
    return [record for file in files if (record := read(file)) is not None]


def active_runs() -> list[Record]:
    """The runs of this user that go on on this machine, the latest first."""
    records = []
    for note in sorted(_notes().glob("*"), reverse=True):
        with contextlib.suppress(OSError, ValueError):
            record = read(Path(note.read_text("utf-8")))
            if record is not None and record.is_running:
                records.append(record)
            elif record is None or record.process.lives() is False:
                note.unlink()
    return records


@contextlib.contextmanager
def one_at_a_time(layout: Layout) -> Iterator[None]:
    """Keep others from looking who runs and beginning a run themselves meanwhile."""
    import fcntl

    layout.runners.mkdir(parents=True, exist_ok=True)
    with open(layout.runners / ".lock", "wb") as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def new_file(layout: Layout) -> Path:
    """The record of a run that begins now, whose name sorts by time."""
    now = time.time()
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    name = f"{moment}-{int(now % 1 * 1e6):06d}-{os.getpid()}.json"
    return layout.runners / name


def write(record: Record) -> None:
    """Replace the record as a whole. What it says is of no worth after a crash of the machine, so
    nothing is synced. Raises OSError."""
    draft = record.file.with_suffix(".draft")
    draft.write_text(json.dumps(record.to_dict(), default=str), "utf-8")
    os.replace(draft, record.file)


def register(record: Record) -> None:
    """Write a run down, and forget those that ended long ago, or before they began. Raises
    OSError."""
    record.file.parent.mkdir(parents=True, exist_ok=True)
    write(record)
    with contextlib.suppress(OSError):
        _notes().mkdir(parents=True, exist_ok=True)
        (_notes() / record.file.stem).write_text(str(record.file), "utf-8")
    ended = [r for r in runs_of(Layout(record.results)) if not r.is_running]
    retained = [r for r in ended if r.began][:_MAX_KEPT_RECORDS]
    for old in (r for r in ended if r not in retained):
        if old.process.lives() is not None:
            for suffix in (".jsonl", ".log", ".json"):
                old.file.with_suffix(suffix).unlink(missing_ok=True)


def unregister(record: Record) -> None:
    """A run ended: it is found in its folder alone from now on."""
    with contextlib.suppress(OSError):
        (_notes() / record.file.stem).unlink(missing_ok=True)


def _notes() -> Path:
    return own_cache(os.environ) / "runs"
