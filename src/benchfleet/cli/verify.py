"""``benchfleet verify``: whether every result is there and as it was sealed."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from benchfleet.bench import Bench
from benchfleet.cli import options
from benchfleet.cli.waiting import shown_as
from benchfleet.cli.words import printable
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.state import STATES
from benchfleet.domain.words import counted
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.base import Ledger
from benchfleet.presence.record import runs_of
from benchfleet.results.verify import KINDS, Finding, Verifier
from benchfleet.runner.repair import MOVED, REPAIRED, Repaired, repair
from benchfleet.whereabouts import Whereabouts
from benchfleet.wiring import rescore

_SETTLES = 1.0  # seconds that a run takes at most from the ledger's commit to the rename
_PASSING = frozenset({"gone", "unpublished", "occupied", "unknown"})  # while a run goes on
_REPAIR = "{repair}"
_WAYS_OUT = {
    "gone": f"`{{merge}}` brings it where another folder has it; {_REPAIR} runs it again",
    "unpublished": f"the next run puts it there, and so does {_REPAIR}",
    "damaged": f"{_REPAIR} keeps it as evidence and runs the cell again",
    "misplaced": f"{_REPAIR} puts each result where it belongs",
    "foreign": f"{_REPAIR} keeps it as evidence and runs the cell again",
    "occupied": f"move it out of the results folder; {_REPAIR} keeps it as evidence",
    "unknown": "`{rebuild}` takes whole results in; move what is none out of the results folder",
    "link": "put what it leads to there in its stead, or remove it, and verify again",
    "unreadable": "mend the rights or the disk, and verify again",
    "newer": "use the benchfleet that wrote it",
    "score": "its scorer changed: publish new scores under another version of the benchmark",
}


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


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.told_campaign(parser, example="benchfleet verify study.yaml --repair")
    options.choice(parser)
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument(
        "--quick", action="store_true", help="read each cell.json, and no other file"
    )
    depth.add_argument(
        "--deep", action="store_true", help="also score the answers again, where that can be done"
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="put back what was moved, run again what is damaged or gone; deletes nothing",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before a repair")


def main(arguments: argparse.Namespace) -> int:
    """Look at every result; 1 where something is wrong or missing."""
    bench, cells = options.opened(arguments)
    whole = not (arguments.only or arguments.exclude or arguments.limit)
    ledger = bench.existing_ledger()
    done: list[Repaired] = []
    if ledger is None:
        found = _told(cells, [], [])
        return _show(arguments, bench, found, done)
    with closing(ledger):
        found = _verified(arguments, bench, cells, ledger, whole=whole)
        mendable = [one for one in found.wrong if one.kind in REPAIRED]
        if arguments.repair and mendable and _agreed(arguments, mendable):
            moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
            done = list(repair(ledger, bench.layout, found.wrong, moment=moment))
            found = _verified(arguments, bench, cells, ledger, whole=whole)
    return _show(arguments, bench, found, done)


def _show(
    arguments: argparse.Namespace, bench: Bench, found: Verified, done: Sequence[Repaired]
) -> int:
    if arguments.json:
        print(json.dumps(_as_json(arguments, bench, found, done), indent=2))
    else:
        for line in (*map(_did, done), *_lines(arguments, bench, found)):
            print(printable(line))
    return 0 if found.is_good else 1


def _verified(
    arguments: argparse.Namespace,
    bench: Bench,
    cells: Sequence[Cell],
    ledger: Ledger,
    *,
    whole: bool,
) -> Verified:
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
    notes = _elsewhere(arguments, elsewhere.values())
    if arguments.deep:
        unsound = {one.path for one in wrong}
        sound = [r for r in records if r.state == "success" and r.path not in unsound | absent]
        for finding, note in _scored_again(bench, sound):
            wrong += [finding] if finding else []
            notes += [note] if note else []
    if whole:
        wrong += verifier.unknown()
    return _told(cells, records, wrong, notes, absent=len(absent))


def _told(
    cells: Sequence[Cell],
    records: Sequence[CellRecord],
    wrong: Sequence[Finding],
    notes: Sequence[str] = (),
    *,
    absent: int = 0,
) -> Verified:
    bad = {one.path for one in wrong}
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


def _elsewhere(arguments: argparse.Namespace, places: Iterable[str]) -> list[str]:
    """Where results are that are not here, and so were not looked at."""
    counts = Counter(places)
    if not counts:
        return []
    where = ", ".join(f"{count} at {place}" for place, count in sorted(counts.items()))
    merge = options.same_choice(arguments, "merge")
    shown = counted(counts.total(), "result")
    return [f"{shown} elsewhere, not looked at ({where}); bring them here: {merge}"]


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


def _agreed(arguments: argparse.Namespace, wrong: Sequence[Finding]) -> bool:
    if arguments.yes:
        return True
    moved = sum(one.kind in MOVED for one in wrong)
    what = f"mend {counted(len(wrong), 'place')} and move {moved} to .evidence"
    if arguments.json or not sys.stdin.isatty():
        raise BenchfleetError(f"this would {what}; say --yes")
    for one in wrong:
        print(printable(f"  {one.kind}  {one.path}  {one.message}"), file=sys.stderr)
    print(f"{what}; cells without a result run again? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _did(one: Repaired) -> str:
    return f"  {one.act}  {one.path}{f'  {one.detail}' if one.detail else ''}"


def _lines(arguments: argparse.Namespace, bench: Bench, found: Verified) -> Iterator[str]:
    name = bench.campaign.name
    how = "looked over" if arguments.quick else "verified"
    wrong = f"{counted(len(found.wrong), 'thing')} wrong" if found.wrong else "nothing wrong"
    yield f"{name}: {counted(found.results, 'result')} {how}, {wrong}"
    for kind in dict.fromkeys(one.kind for one in found.wrong):
        for one in found.wrong:
            if one.kind == kind:
                yield f"  {one.kind}  {one.path}  {one.message}"
        yield f"    {_way_out(arguments, kind)}"
    for note in found.notes:
        yield f"  note: {note}"
    if not found.missing:
        return
    shown = ", ".join(f"{count} {state}" for state, count in found.missing.items())
    count = sum(found.missing.values())
    yield f"{counted(count, 'cell')} without a good result: {shown}"
    for axis, names in found.complete.items():
        if short := {n: c for n, c in names.items() if c[0] < c[1]}:
            told = ", ".join(f"{n} {has} of {all_}" for n, (has, all_) in short.items())
            yield f"  {axis}: {told}"
    if any(state in found.missing for state in ("pending", "running")):
        yield f"run them: {options.same_choice(arguments, 'run')}"
    if any(state in found.missing for state in ("failed", "partial", "cancelled")):
        yield f"why, and the way out: {options.same_choice(arguments, 'failures')}"


def _way_out(arguments: argparse.Namespace, kind: str) -> str:
    repair = options.same_choice(arguments, "verify") + " --repair"
    rebuild = options.same_choice(arguments, "ledger rebuild")
    merge = options.same_choice(arguments, "merge")
    return _WAYS_OUT[kind].format(repair=f"`{repair}`", rebuild=rebuild, merge=merge)


def _as_json(
    arguments: argparse.Namespace, bench: Bench, found: Verified, done: Sequence[Repaired]
) -> dict[str, Any]:
    return {
        "campaign": bench.campaign.name,
        "results": found.results,
        "wrong": [
            {**one.to_dict(), "way_out": _way_out(arguments, one.kind)} for one in found.wrong
        ],
        "repaired": [one.to_dict() for one in done],
        "notes": list(found.notes),
        "missing": found.missing,
        "complete": {
            axis: {name: {"good": has, "cells": all_} for name, (has, all_) in names.items()}
            for axis, names in found.complete.items()
        },
    }
