"""Results of an earlier tool, published as those of cells: under their own names, nothing added."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.seen import Seen, unseen
from benchfleet.ledger.base import Ledger
from benchfleet.results.disk import read_plain
from benchfleet.results.earlier import Entry, number
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.runner.mending.entered import Ready, end_each

_RUNNER = RunnerId("import")
_FILE = "imported.json"  # the result as it was


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What became of the results."""

    taken: int
    known: int
    held: tuple[str, ...]  # cells that somebody runs now


def import_results(
    ledger: Ledger,
    layout: Layout,
    found: Iterable[tuple[Cell, Entry]],
    *,
    source: str,
    pause: Callable[[float], None] = time.sleep,
    seen: Seen = unseen,
) -> Imported:
    """Publish each result as its cell's, which is enrolled; `source` is where they come from."""
    states = {record.fingerprint: record.state for record in ledger.cells()}
    waiting: dict[str, tuple[Cell, Entry]] = {}
    known = 0
    for cell, entry in found:
        state = states[cell.fingerprint]
        if state == "success":
            known += 1
            continue
        if state not in ("pending", "running"):
            ledger.record(Event(kind="retry_asked", fingerprint=cell.fingerprint))
        waiting[cell.fingerprint] = cell, entry

    def prepare(claim: Claim, one: tuple[Cell, Entry]) -> Ready:
        folder = AttemptFolder(layout.attempt(claim.lease))
        outcome = _sealed(folder, claim, *one, source)
        return outcome, partial(publish, folder.folder, layout.published(claim.path))

    left = end_each(ledger, _RUNNER, waiting, prepare, pause=pause, seen=seen)
    held = tuple(entry.name for _, entry in left)
    return Imported(taken=len(waiting) - len(held), known=known, held=held)


def _sealed(folder: AttemptFolder, claim: Claim, cell: Cell, entry: Entry, source: str) -> Outcome:
    content = dict(entry.content or {})
    folder.append(_FILE, (json.dumps(content, indent=2) + "\n").encode())
    log = b""
    if entry.raw is not None:
        with contextlib.suppress(OSError):
            log = read_plain(entry.raw)
    folder.log.write_bytes(log)
    numbers = {n: v for n, value in content.items() if (v := number(value)) is not None}
    times = {n.removesuffix("_time_s"): v for n, v in numbers.items() if n.endswith("_time_s")}
    verdict = Verdict(
        score={"overall": entry.score, "per_sample": [], "tasks": {}, "summary": numbers},
        seconds={name: float(value) for name, value in times.items()},
        provenance={"imported_from": source, "entry": entry.name, "host": entry.host},
    )
    sealed = folder.seal(cell, claim.path, verdict)
    return Outcome(
        state="success",
        digest=sealed.digest,
        metrics=sealed.metrics,
        reported=sealed.reported,
        seconds=verdict.seconds,
        host=entry.host,
    )
