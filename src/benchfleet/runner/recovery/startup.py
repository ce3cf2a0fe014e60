"""Putting right what a crash left: cells that a killed runner holds, results that wait for their
rename, attempts that came too late, and empty folders."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchfleet.domain.event import RUNNER_KILLED
from benchfleet.domain.part import SPLIT
from benchfleet.domain.slots import BEGAN
from benchfleet.engines.processes import owner
from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.results.publish import PublishAll, publish_all
from benchfleet.results.read import is_published, left_attempts, sealed_attempts, too_late
from benchfleet.runner.resources.local_host import LocalHost


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """A result that the ledger took and nobody had published."""

    path: str
    problem: str = ""  # why it waits still; "" where it is published now


def publish_committed(
    ledger: Ledger, layout: Layout, *, publish_all: PublishAll = publish_all
) -> Iterator[Recovered]:
    """Rename each sealed attempt that the ledger took but nobody published.

    Cheap where there is nothing to do: published attempts are no longer under ``.attempts``.
    """
    waiting = sealed_attempts(layout)
    if not waiting:
        return
    fingerprints = {folder.parent.name for folder in waiting}
    ended = ledger.cells(states=["success"], fingerprints=fingerprints)
    records = {str(record.fingerprint): record for record in ended}
    late: dict[str, Path] = {}
    for folder, digest in waiting.items():
        record = records.get(folder.parent.name)
        if record is None or record.outcome is None or record.outcome.digest != digest:
            continue
        if is_published(layout, record.path, digest):
            continue  # by another runner, a moment ago
        late[record.path] = folder
    moves = [(folder, layout.published(path)) for path, folder in late.items()]
    for path, wrong in zip(late, publish_all(moves), strict=True):
        yield Recovered(path=path, problem=str(wrong or ""))


def release_killed(ledger: Ledger, local_host: LocalHost) -> int:
    """Release the cells and parts of runners that were killed on this machine, and count them.
    Their leases would hold them up; a runner elsewhere may be alive: its leases have to expire."""
    if not local_host.space:
        return 0
    parts = {part for event in ledger.events(kinds={SPLIT}) for part in event.data["parts"]}
    running = list(ledger.cells(states=["running"]))
    running += ledger.cells(states=["running"], fingerprints=parts) if parts else ()
    if not running:
        return 0
    runners = {event.data["runner"]: event.data for event in ledger.events(kinds={BEGAN})}
    killed = {name for name, began in runners.items() if _was_killed(began, local_host)}
    if leases := [record.lease for record in running if record.runner in killed]:
        ledger.release(leases, RUNNER_KILLED)
    return len(leases)


def _was_killed(began: Mapping[str, Any], local_host: LocalHost) -> bool:
    """Whether a runner began on this machine, and its process is gone."""
    process = str(began.get("process", ""))
    where = (began.get("machine"), began.get("space"))  # some versions did not record all of it
    if where != (local_host.machine, local_host.space) or not process:
        return False
    return owner(int(process.partition("@")[0])) != process


def remove_late_attempts(ledger: Ledger, layout: Layout) -> None:
    """Remove the attempts of published cells that a runner left which was killed as it woke from a
    sleep past its leases, before it could hear that another had published them."""
    leftovers = left_attempts(layout)  # before the ledger is asked: what is begun from now on stays
    if not leftovers:
        return
    for folder in too_late(
        layout, leftovers, ledger.cells(states=["success"], fingerprints=leftovers)
    ):
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # others are there
            folder.parent.rmdir()


def remove_joined_parts(ledger: Ledger, layout: Layout) -> None:
    """Remove the results of parts that a runner left which was killed after it had published the
    whole cell."""
    parts = {event.fingerprint: event.data["parts"] for event in ledger.events(kinds={SPLIT})}
    done = ledger.cells(states=["success"], fingerprints=parts) if parts else ()
    joined = {name for record in done for name in parts[record.fingerprint]}
    for record in ledger.cells(fingerprints=joined) if joined else ():
        shutil.rmtree(layout.published(record.path), ignore_errors=True)


def remove_empty_folders(layout: Layout) -> None:
    """Remove the folders of cells that have no attempt any more; a run that ends keeps none, and
    one that is killed leaves those that it meant for its next cells."""
    with contextlib.suppress(FileNotFoundError):  # nothing was run yet
        for folder in layout.attempts.iterdir():
            with contextlib.suppress(OSError):  # attempts are there
                folder.rmdir()
