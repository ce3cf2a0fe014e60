"""Finished work that a changed campaign would run again, and which input changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.base import Benchmark, benchmark_class
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted, duration, examples
from benchfleet.domain.state import FINAL_STATES
from benchfleet.planner.explain import Difference, differences, subject
from benchfleet.study import Study

FILES = "workload.data_digest"


@dataclass(frozen=True, kw_only=True)
class Reruns:
    """Cells that were finished under other values of the same keys of their identity."""

    changed: tuple[str, ...]  # what people call these keys, and the file that was written last
    cells: tuple[str, ...]  # ids
    seconds: float  # that the finished cells took
    # Values of the key `identity` that keep the results, each with its benchmarks; or none.
    identities: Mapping[str, tuple[str, ...]]

    def __str__(self) -> str:
        took = f" ({duration(self.seconds)} of work)" if self.seconds else ""
        what = f"{counted(len(self.cells), 'finished cell')} would run again{took}"
        keep = "To keep the results, undo the change"
        if self.identities:
            keep += f" or write {self._entries()}"
        return f"{what}, because {examples(self.changed)} changed. {keep}."

    def _entries(self) -> str:
        keys = {f'`identity: "{one}"`': names for one, names in self.identities.items()}
        if len(keys) == 1:
            return f"{next(iter(keys))} in the benchmark's entry"
        return examples([f"{key} in the entry of {examples(keys[key])}" for key in keys])

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "changed": list(self.changed),
            "cells": list(self.cells),
            "seconds": self.seconds,
            "identities": {one: list(names) for one, names in self.identities.items()},
        }


def find_reruns(study: Study, cells: Collection[Cell]) -> list[Reruns]:
    """What a run of these cells would compute again, by what changed."""
    ledger = study.open_existing_ledger()
    if ledger is None:
        return []
    with closing(ledger):
        own = {str(cell.fingerprint) for cell in cells}
        records = list(ledger.cells(states=[*FINAL_STATES, "running"]))
        settled = {record.fingerprint for record in records}
        new = {cell.id: cell for cell in cells if cell.fingerprint not in settled}
        finished = {
            str(record.fingerprint)
            for record in records
            if record.id in new and record.state == "success" and record.fingerprint not in own
        }
        earlier = list(ledger.cells(fingerprints=finished, with_cell=True)) if finished else []
    return list(_grouped(new, earlier))


def _grouped(new: dict[Any, Cell], earlier: Iterable[CellRecord]) -> Iterator[Reruns]:
    """One for each set of keys that changed; of several earlier cells the most similar counts."""
    nearest: dict[str, tuple[CellRecord, list[Difference]]] = {}
    for record in earlier:
        if record.cell is not None:
            differing = differences(record.cell.identity(), new[record.id].identity())
            best = nearest.get(record.id)
            if best is None or len(differing) <= len(best[1]):
                nearest[record.id] = record, differing
    groups: dict[tuple[str, ...], list[tuple[CellRecord, list[Difference]]]] = {}
    for record, differing in nearest.values():
        groups.setdefault(tuple(one.key for one in differing), []).append((record, differing))
    for keys, members in groups.items():
        cell = new[members[0][0].id]
        benchmark = benchmark_class(cell.workload.benchmark)
        outcomes = [record.outcome for record, _ in members if record.outcome]
        keeps = keys == (FILES,) and benchmark.takes_identity
        yield Reruns(
            changed=tuple(_subject(key, cell, benchmark) for key in keys),
            cells=tuple(record.id for record, _ in members),
            seconds=sum(sum(outcome.seconds.values()) for outcome in outcomes),
            identities=_identities(new, members) if keeps else {},
        )


def _identities(
    new: Mapping[Any, Cell], members: Iterable[tuple[CellRecord, list[Difference]]]
) -> dict[str, tuple[str, ...]]:
    """Each digest of files that finished cells had, with the benchmarks of these cells."""
    names: dict[str, set[str]] = {}
    for record, (digest,) in members:
        names.setdefault(str(digest.old), set()).add(new[record.id].workload.name)
    return {digest: tuple(sorted(ones)) for digest, ones in names.items()}


def _subject(key: str, cell: Cell, benchmark: type[Benchmark]) -> str:
    if key != FILES:
        return subject(key, cell).removesuffix(":")
    work = cell.workload
    try:
        paths = benchmark({**work.params, **work.outside}).files(work.subset)
        files = sorted((file for file in paths if file.is_file()), key=_written_at, reverse=True)
    except (ValueError, OSError):
        files = []
    if len(names := list(dict.fromkeys(file.name for file in files))) == 1:
        return f"the content of {names[0]}"
    return f"the content of its files ({names[0]} was written last)" if names else "its content"


def _written_at(file: Path) -> float:
    return file.stat().st_mtime
