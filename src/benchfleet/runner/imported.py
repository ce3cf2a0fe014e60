"""Results of an earlier tool, published as those of cells: under their own names, nothing added."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Offer
from benchfleet.errors import ClaimLost
from benchfleet.ledger.base import Ledger
from benchfleet.results.disk import read_plain
from benchfleet.results.earlier import Entry, number
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.runner.writers import Writers

_RUNNER = RunnerId("import")
_FILE = "imported.json"  # the result as it was
_TOGETHER = 64  # cells claimed at once
_PAUSE, _PATIENCE = 0.5, 600.0  # seconds; between two claims, and of waiting for any


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
    held: list[str] = []
    problems: list[Exception] = []
    taken = len(waiting)

    def finish(claim: Claim, folder: AttemptFolder, outcome: Outcome, name: str) -> None:
        try:
            ledger.finish(claim.lease, outcome)
            publish(folder.folder, layout.published(claim.path))
        except ClaimLost:
            held.append(name)
        except Exception as error:  # noqa: BLE001 - raised below, when the others have ended
            problems.append(error)

    writers = Writers(getattr(ledger, "writers", 1))
    try:
        for claim in _claims(ledger, waiting, pause):
            cell, entry = waiting.pop(claim.lease.fingerprint)
            folder = AttemptFolder(layout.attempt(claim.lease))
            outcome = _sealed(folder, claim, cell, entry, source)
            writers.give(partial(finish, claim, folder, outcome, entry.name))
    finally:
        writers.close()
    for problem in problems:
        raise problem
    held += [entry.name for _, entry in waiting.values()]
    return Imported(taken=taken - len(held), known=known, held=tuple(held))


def _claims(
    ledger: Ledger, waiting: Mapping[str, object], pause: Callable[[float], None]
) -> Iterator[Claim]:
    """Claims of what is waiting, as long as there are any to be had. A hosted repository gives
    them with its next push."""
    patience = _PATIENCE if hasattr(ledger, "writers") else 0.0
    waited = 0.0
    while waiting:
        left = any(True for _ in ledger.cells(states=["pending"], among=waiting))
        offer = Offer(gpus=2**31, vram=2**62, among=Choice(waiting))
        if claims := ledger.claim(_RUNNER, offer, _TOGETHER):
            waited = 0.0
            yield from claims
        elif left and waited < patience:
            pause(_PAUSE)
            waited += _PAUSE
        else:
            return


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
