"""Verification of a campaign's results: one value that the command line and other views share."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.domain.part import is_part_id
from benchfleet.domain.state import STATES
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.parts import parts_of
from benchfleet.result_locations import ResultLocator
from benchfleet.results.verify import KINDS, Finding, Verifier
from benchfleet.runs.registry import runs_of
from benchfleet.study import Study, in_order
from benchfleet.wiring import rescore

_PUBLISH_TIMEOUT_S = 1.0  # that a run takes at most from the ledger's commit to the rename
_TRANSIENT_KINDS = frozenset({"gone", "unpublished", "occupied", "unknown"})  # while a run goes on
# `merge` fetches the result if another place has it.
_FETCHED_KINDS = frozenset({"gone", "outdated", "damaged", "misplaced", "foreign"})

Progress = Callable[[int, int], None]  # is called with how many are done, of how many


def _no_progress(done: int, of: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What was found."""

    results: int = 0  # that were looked at
    wrong: Sequence[Finding] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)  # path → host or store that has it
    notes: Sequence[str] = ()
    complete: Mapping[str, Mapping[str, tuple[int, int]]]  # by axis and name: good ones, cells
    missing: Mapping[str, int]  # cells of the campaign without a good result, by state

    @property
    def is_good(self) -> bool:
        """Whether every cell has a good result, and nothing else is wrong."""
        return not self.wrong and not self.missing


@dataclass(frozen=True, kw_only=True)
class Verify:
    """What is to be verified."""

    study: Study
    cells: Sequence[Cell]
    whole: bool  # they are the whole campaign; what else lies among the results counts, too
    quick: bool = False  # read each cell.json, and no other file
    deep: bool = False  # score the answers again

    def run(self, ledger: Ledger | None, progress: Progress = _no_progress) -> Verification:
        """Look at the results; without a ledger there are none."""
        if ledger is None:
            return self._summed_up([], [], {}, [])
        all_records = list(ledger.cells(parts=True))
        order = [str(cell.fingerprint) for cell in self.cells]
        among = frozenset(order)
        cells = (one for one in all_records if not is_part_id(one.id))
        records = in_order((one for one in cells if self.whole or one.fingerprint in among), order)
        names = parts_of(ledger, {str(record.fingerprint) for record in records}).values()
        in_force = set(chain.from_iterable(names))  # parts of others are needed no more
        parts = [one for one in all_records if one.fingerprint in in_force]
        verifier = Verifier(self.study.layout, all_records, quick=self.quick)
        findings = self._look(verifier, [*records, *parts], progress)
        if moving := [path for path, one in findings.items() if one.kind in _TRANSIENT_KINDS]:
            if self._run_active(all_records):
                time.sleep(_PUBLISH_TIMEOUT_S)
            now = {record.path: record for record in ledger.cells(parts=True)}
            again = Verifier(self.study.layout, now.values(), quick=self.quick)
            for path in moving:
                del findings[path]
            findings |= self._look(again, [now[path] for path in moving])
            records = [now[record.path] for record in records]
            parts = [now[record.path] for record in parts]
        locations = self._elsewhere([*records, *parts], findings)
        elsewhere = {path: at for path, at in locations.items() if findings[path].kind == "gone"}
        wrong = [
            replace(one, elsewhere=locations.get(path, ""))
            for path, one in findings.items()
            if path not in elsewhere
        ]
        scores, notes = self._score_again(records, wrong, elsewhere) if self.deep else ([], [])
        wrong += scores
        if self.whole:
            wrong += verifier.unknown()
        history = self.study.race(ledger)
        raced = frozenset(str(one.fingerprint) for one in records if history.is_stopped(one))
        if raced:
            notes = [*notes, f"a race stopped {counted(len(raced), 'cell')}, which need no result"]
        done_parts = sum(part.state == "success" for part in parts)
        return self._summed_up(records, wrong, elsewhere, notes, raced, done_parts)

    @staticmethod
    def _look(
        verifier: Verifier,
        records: Sequence[CellRecord],
        progress: Progress = _no_progress,
    ) -> dict[str, Finding]:
        """What is wrong with the results of these, by path."""
        findings = {}
        for number, record in enumerate(records):
            progress(number, len(records))
            if (one := verifier.look(record)) is not None:
                findings[record.path] = one
        return findings

    def _run_active(self, records: Iterable[CellRecord]) -> bool:
        """Whether a run may be about to publish something."""
        running = any(record.state == "running" for record in records)
        return running or any(run.is_running for run in runs_of(self.study.layout))

    def _elsewhere(
        self, records: Iterable[CellRecord], findings: Mapping[str, Finding]
    ) -> dict[str, str]:
        """Where the results are that are wrong here, by path."""
        wrong = {path for path, one in findings.items() if one.kind in _FETCHED_KINDS}
        missing = [r for r in records if r.path in wrong]
        locations = ResultLocator(self.study).elsewhere(missing)
        return {r.path: locations[r.fingerprint] for r in missing if r.fingerprint in locations}

    def _score_again(
        self,
        records: Sequence[CellRecord],
        wrong: Sequence[Finding],
        elsewhere: Collection[str],
    ) -> tuple[list[Finding], list[str]]:
        """The results that score otherwise now, and notes on those that were not scored again."""
        bad = {one.path for one in wrong if one.spoils} | set(elsewhere)
        sound = [one for one in records if one.state == "success" and one.path not in bad]
        benchmarks = {str(cell.fingerprint): cell.workload.name for cell in self.cells}
        findings: list[Finding] = []
        unscored: dict[tuple[str, str], list[str]] = {}  # paths, by benchmark and reason
        for one in rescore(self.study, sound):
            path, fingerprint = one.record.path, str(one.record.fingerprint)
            if one.differs:
                message = f"scored again it has {one.score}, published is {one.published}"
                message += f" ({counted(one.changed, 'sample', 'differ')})"
                findings.append(
                    Finding(kind="score", path=path, message=message, fingerprint=fingerprint)
                )
            elif one.failure:
                benchmark = benchmarks.get(fingerprint, path)
                unscored.setdefault((benchmark, one.failure.message), []).append(path)
        notes = [
            f"{paths[0]} was not scored again: {why}"
            if len(paths) == 1
            else f"{len(paths)} results of {benchmark} were not scored again: {why}"
            for (benchmark, why), paths in unscored.items()
        ]
        return findings, notes

    def _summed_up(
        self,
        records: Sequence[CellRecord],
        wrong: Sequence[Finding],
        elsewhere: Mapping[str, str],
        notes: Sequence[str],
        raced: frozenset[str] = frozenset(),
        done_parts: int = 0,
    ) -> Verification:
        """What was found, held against the campaign's cells."""
        bad = {one.path for one in wrong if one.spoils}
        states = {str(record.fingerprint): record.state for record in records}
        done = {name for name, state in states.items() if state == "success"}
        good = done - {str(record.fingerprint) for record in records if record.path in bad}
        cells = [cell for cell in self.cells if cell.fingerprint not in raced]
        ours = {str(cell.fingerprint) for cell in cells}
        if others := len(done - ours - raced):
            notes = [
                *notes,
                f"{others} of these results are not of the campaign's cells: "
                "trials with --limit, or cells that it had before",
            ]
        missing = Counter(states.get(cell, "pending") for cell in ours - good)
        return Verification(
            results=len(done) + done_parts - len(elsewhere),
            wrong=sorted(wrong, key=lambda one: (KINDS.index(one.kind), one.path)),
            elsewhere=elsewhere,
            notes=notes,
            complete=_completeness(cells, good),
            missing={
                "wrong" if state == "success" else state: missing[state]
                for state in STATES
                if missing[state]
            },
        )


def _completeness(
    cells: Iterable[Cell], good: Collection[str]
) -> dict[str, dict[str, tuple[int, int]]]:
    """How many cells have a good result, and how many there are, by axis and name."""
    axes: dict[str, Callable[[Cell], str]] = {
        "phases": lambda cell: cell.phase,
        "models": lambda cell: cell.model.name,
        "configs": lambda cell: cell.config.name,
        "benchmarks": lambda cell: cell.label,
    }
    counts: dict[str, dict[str, tuple[int, int]]] = {axis: {} for axis in axes}
    for cell in cells:
        for axis, name_of in axes.items():
            has, all_ = counts[axis].get(name_of(cell), (0, 0))
            counts[axis][name_of(cell)] = has + (cell.fingerprint in good), all_ + 1
    if not set(counts["phases"]) - {""}:
        del counts["phases"]
    return counts
