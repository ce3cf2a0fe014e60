"""Looking at every result of a campaign, and what was found."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchfleet.bench import Bench
from benchfleet.cli.elsewhere import told_elsewhere
from benchfleet.cli.waiting import shown_as
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.state import STATES
from benchfleet.domain.words import counted
from benchfleet.ledger.base import Ledger
from benchfleet.presence.record import runs_of
from benchfleet.results.verify import KINDS, Finding, Verifier
from benchfleet.whereabouts import Whereabouts
from benchfleet.wiring import rescore

_SETTLES = 1.0  # seconds that a run takes at most from the ledger's commit to the rename
_PASSING = frozenset({"gone", "unpublished", "occupied", "unknown"})  # while a run goes on


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What was found."""

    results: int  # that were looked at
    wrong: Sequence[Finding]
    notes: Sequence[str]
    complete: dict[str, dict[str, tuple[int, int]]]  # by axis and name: good ones, cells
    missing: dict[str, int]  # cells of the campaign without a result, by state

    @property
    def is_good(self) -> bool:
        return not self.wrong and not self.missing


def verified(
    arguments: argparse.Namespace,
    bench: Bench,
    cells: Sequence[Cell],
    ledger: Ledger,
    *,
    whole: bool,
) -> Verified:
    """Look at the results of these cells; where they are the `whole` campaign, also at what else
    lies there."""
    among = None if whole else {str(cell.fingerprint) for cell in cells}
    known = list(ledger.cells())
    verifier = Verifier(bench.layout, known, quick=arguments.quick)
    records = [record for record in known if among is None or record.fingerprint in among]
    found = {record.path: verifier.look(record) for record in _counted(records)}
    moving = [path for path, one in found.items() if one and one.kind in _PASSING]
    if moving:  # another look: a run may have been about to publish them
        if any(record.state == "running" for record in known) or _goes_on(bench):
            time.sleep(_SETTLES)
        now = {record.path: record for record in ledger.cells()}
        again = Verifier(bench.layout, now.values(), quick=arguments.quick)
        found |= {path: again.look(now[path]) for path in moving}
        records = [now[record.path] for record in records]
    gone = [r for r in records if (one := found[r.path]) and one.kind == "gone"]
    elsewhere = Whereabouts(bench).elsewhere(gone)
    absent = {record.path for record in gone if record.fingerprint in elsewhere}
    wrong = [one for path, one in found.items() if one is not None and path not in absent]
    notes = told_elsewhere(arguments, elsewhere.values(), "{results} elsewhere, not looked at")
    if arguments.deep:
        unsound = {one.path for one in wrong if one.spoils}
        sound = [r for r in records if r.state == "success" and r.path not in unsound | absent]
        for finding, note in _scored_again(bench, sound):
            wrong += [finding] if finding else []
            notes += [note] if note else []
    if whole:
        wrong += verifier.unknown()
    return told(cells, records, wrong, notes, absent=len(absent))


def told(
    cells: Sequence[Cell],
    records: Sequence[CellRecord],
    wrong: Sequence[Finding],
    notes: Sequence[str] = (),
    *,
    absent: int = 0,
) -> Verified:
    """What was found, held against the campaign's cells; `absent` results are elsewhere."""
    bad = {one.path for one in wrong if one.spoils}
    done = {str(record.fingerprint) for record in records if record.state == "success"}
    good = done - {str(record.fingerprint) for record in records if record.path in bad}
    states = {str(record.fingerprint): record.state for record in records}
    ours = {str(cell.fingerprint) for cell in cells}
    if others := len(done - ours):
        notes = [*notes, f"{others} of these results are of cells that the campaign has no more"]
    lacking = Counter(states.get(cell, "pending") for cell in ours - good)
    return Verified(
        results=len(done) - absent,
        wrong=sorted(wrong, key=lambda one: (KINDS.index(one.kind), one.path)),
        notes=notes,
        complete=_completeness(cells, good),
        missing={
            "wrong" if state == "success" else state: lacking[state]
            for state in STATES
            if lacking[state]
        },
    )


def _goes_on(bench: Bench) -> bool:
    return any(run.goes_on for run in runs_of(bench.layout))


def _counted(records: Sequence[CellRecord]) -> Iterator[CellRecord]:
    """The records, with a word now and then to somebody who waits at a terminal."""
    with shown_as("results held against their seals") as seen:
        for number, record in enumerate(records):
            seen(number, len(records))
            yield record


def _scored_again(
    bench: Bench, records: Sequence[CellRecord]
) -> Iterator[tuple[Finding | None, str]]:
    for one in rescore(bench, records):
        path = one.record.path
        if one.differs:
            message = f"scored again it has {one.score}, published is {one.published}"
            message += f" ({counted(one.changed, 'sample', 'differ')})"
            fingerprint = str(one.record.fingerprint)
            yield Finding(kind="score", path=path, message=message, fingerprint=fingerprint), ""
        elif one.failure:
            yield None, f"{path} was not scored again: {one.failure.message}"


def _completeness(
    cells: Iterable[Cell], good: Collection[str]
) -> dict[str, dict[str, tuple[int, int]]]:
    """How many cells have a good result, and how many there are, by axis and name."""
    axes: dict[str, Callable[[Cell], str]] = {
        "phases": lambda cell: cell.phase,
        "models": lambda cell: cell.model.name,
        "configs": lambda cell: cell.config.name,
        "benchmarks": lambda cell: cell.workload.label,
    }
    found: dict[str, dict[str, tuple[int, int]]] = {axis: {} for axis in axes}
    for cell in cells:
        for axis, name_of in axes.items():
            has, all_ = found[axis].get(name_of(cell), (0, 0))
            found[axis][name_of(cell)] = has + (cell.fingerprint in good), all_ + 1
    if not set(found["phases"]) - {""}:
        del found["phases"]
    return found
