"""Results of an earlier tool, published as those of cells: under their own names, nothing added."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Offer
from benchfleet.errors import ClaimLost
from benchfleet.ledger.base import Ledger
from benchfleet.results.disk import read_plain
from benchfleet.results.earlier import Entry
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.write import AttemptFolder, Verdict

_RUNNER = RunnerId("import")
_FILE = "imported.json"  # the result as it was


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What became of the results."""

    taken: int
    known: int
    held: tuple[str, ...]  # cells that somebody runs now


def import_results(
    ledger: Ledger, layout: Layout, found: Iterable[tuple[Cell, Entry]], *, source: str
) -> Imported:
    """Publish each result as its cell's, which is enrolled; `source` is where they come from."""
    pairs = list(found)
    states = {record.fingerprint: record.state for record in ledger.cells()}
    taken = known = 0
    held: list[str] = []
    for cell, entry in pairs:
        state = states[cell.fingerprint]
        if state == "success":
            known += 1
            continue
        if state not in ("pending", "running"):
            ledger.record(Event(kind="retry_asked", fingerprint=cell.fingerprint))
        if _take(ledger, layout, cell, entry, source):
            taken += 1
        else:
            held.append(entry.name)
    return Imported(taken=taken, known=known, held=tuple(held))


def _take(ledger: Ledger, layout: Layout, cell: Cell, entry: Entry, source: str) -> bool:
    offer = Offer(gpus=2**31, vram=2**62, among=Choice([str(cell.fingerprint)]))
    for claim in ledger.claim(_RUNNER, offer, 1):
        folder = AttemptFolder(layout.attempt(claim.lease))
        content = dict(entry.content or {})
        folder.append(_FILE, (json.dumps(content, indent=2) + "\n").encode())
        log = b""
        if entry.raw is not None:
            with contextlib.suppress(OSError):
                log = read_plain(entry.raw)
        folder.log.write_bytes(log)
        numbers = {
            name: value
            for name, value in content.items()
            if isinstance(value, (bool, int, float)) and math.isfinite(value)
        }
        times = {n.removesuffix("_time_s"): v for n, v in numbers.items() if n.endswith("_time_s")}
        verdict = Verdict(
            score={"overall": entry.score, "per_sample": [], "tasks": {}, "summary": numbers},
            seconds={name: float(value) for name, value in times.items()},
            provenance={"imported_from": source, "entry": entry.name, "host": entry.host},
        )
        sealed = folder.seal(cell, claim.path, verdict)
        outcome = Outcome(
            state="success",
            digest=sealed.digest,
            metrics=sealed.metrics,
            reported=sealed.reported,
            seconds=verdict.seconds,
            host=entry.host,
        )
        try:
            ledger.finish(claim.lease, outcome)
        except ClaimLost:
            return False
        publish(folder.folder, layout.published(claim.path))
        return True
    return False
