"""Rebuilds a lost, damaged or new ledger from published results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchfleet.domain.attempt import CellRecord, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.part import SPLIT, is_part_id, whole_of
from benchfleet.domain.progress_callback import ProgressCallback, ignore_progress
from benchfleet.domain.state import FINAL_STATES, State
from benchfleet.errors import ResultsError
from benchfleet.ledger.base import Ledger
from benchfleet.results.disk import subfolders
from benchfleet.results.layout import Layout
from benchfleet.results.outcome import parsed_outcome
from benchfleet.results.read import damage, has_published, is_sealed, published_folders, sealed
from benchfleet.results.upload_queue import UploadQueue
from benchfleet.runner.recovery.adopt import finish_cells, registered
from benchfleet.runner.recovery.splits import restore_splits
from benchfleet.runner.resources.local_host import LocalHost


@dataclass(frozen=True, kw_only=True)
class RebuildSummary:
    """What a rebuild found."""

    entered: int  # results that the ledger did not know
    unchanged: int
    refused: tuple[tuple[str, str], ...]  # path and reason

    def to_dict(self) -> dict[str, Any]:
        return {"taken": self.entered, "known": self.unchanged, "refused": self.refused}


@dataclass(frozen=True, kw_only=True)
class _Published:
    """A published result, as its cell.json tells it."""

    path: str
    cell: Cell
    outcome: Outcome


def rebuild(
    ledger: Ledger,
    layout: Layout,
    local_host: LocalHost,
    *,
    seen: ProgressCallback = ignore_progress,
) -> RebuildSummary:
    """Enter every published result of this host into the ledger, each as the success that it is.

    Left out by name: folders that are not as they were sealed, whose place the ledger has given
    to another cell, or whose cell another runner holds.
    """
    results, refused = _read_all(layout.root, published_folders(layout.root))
    return _enter_all(ledger, layout, local_host, results, refused, seen)


def adopt_published(
    ledger: Ledger,
    layout: Layout,
    local_host: LocalHost,
    cells: Sequence[Cell],
    *,
    seen: ProgressCallback = ignore_progress,
) -> RebuildSummary:
    """Enter the published results of those of these cells that the ledger does not know, or has as
    pending: run again, they could not be published. Cheap where nothing is published."""
    results: list[_Published] = []
    if has_published(layout.root):
        among = {str(cell.fingerprint) for cell in cells}
        ended: Sequence[State] = ["running", *FINAL_STATES]
        among -= {str(one.fingerprint) for one in ledger.cells(states=ended, fingerprints=among)}
        missing = [cell for cell in cells if cell.fingerprint in among]
        paths = (cell.path(marked=marked) for cell in missing for marked in (False, True))
        folders = [*map(layout.published, paths), *_new_parts(ledger, layout, missing)]
        sealed_folders = (folder for folder in folders if is_sealed(layout.root, folder))
        results = [
            one
            for one in _read_all(layout.root, sealed_folders)[0]
            if whole_of(one.cell).fingerprint in among
        ]
    return (
        _enter_all(ledger, layout, local_host, results, [], seen)
        if results
        else RebuildSummary(entered=0, unchanged=0, refused=())
    )


def _new_parts(ledger: Ledger, layout: Layout, cells: Iterable[Cell]) -> Iterator[Path]:
    """Where results of parts of these cells may lie, without parts that the ledger has as done."""
    parts = {part for event in ledger.events(kinds={SPLIT}) for part in event.data["parts"]}
    done = ledger.cells(states=["success"], fingerprints=parts) if parts else ()
    done_folders = {layout.published(record.path) for record in done}
    for folder in {layout.root.joinpath(*cell.path_parts[:2]) for cell in cells}:
        for part in filter(is_part_id, subfolders(folder)):
            yield from {Path(part), *map(Path, subfolders(part))} - done_folders


def _enter_all(
    ledger: Ledger,
    layout: Layout,
    local_host: LocalHost,
    results: list[_Published],
    refused: list[tuple[str, str]],
    seen: ProgressCallback,
) -> RebuildSummary:
    results, misplaced = _placed(results, ledger.cells(parts=True))
    ledger.enroll(
        (result.cell for result in results),
        paths={result.cell.fingerprint: result.path for result in results},
    )
    ledger.reap()
    runner = RunnerId(f"rebuild-{os.urandom(8).hex()}")
    restore_splits(ledger, runner, [result.cell for result in results])
    records = {record.fingerprint: record for record in ledger.cells(parts=True)}
    unchanged, waiting = 0, dict[str, _Published]()
    refused += misplaced
    for result in results:
        record = records[result.cell.fingerprint]
        if record.state == "success":
            if record.outcome and record.outcome.digest == result.outcome.digest:
                unchanged += 1
            else:
                refused.append((result.path, "the ledger has another result for this cell"))
        else:
            _make_pending(ledger, record)
            waiting[str(record.fingerprint)] = result
    left_over: list[_Published] = []
    if waiting:
        with registered(ledger, runner, local_host):  # so that the others know where they are
            left_over = finish_cells(  # each is published already
                ledger, runner, waiting, lambda _, result: (result.outcome, None), seen=seen
            )
        for folder in (layout.outbox, layout.cache_outbox):  # whether they were sent is unknown
            UploadQueue(folder).unassign()
    refused += (
        (one.path, "another runner holds its cell; rebuild when it ended") for one in left_over
    )
    return RebuildSummary(
        entered=len(waiting) - len(left_over), unchanged=unchanged, refused=tuple(refused)
    )


def _read_all(
    root: Path, folders: Iterable[Path]
) -> tuple[list[_Published], list[tuple[str, str]]]:
    results, refused = [], []
    for folder in folders:
        path = folder.relative_to(root).as_posix()
        try:
            results.append(_read(folder, path))
        except ResultsError as error:
            refused.append((path, str(error)))
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            refused.append((path, f"its cell.json is not as it must be: {error!r}"))
    return results, refused


def _read(folder: Path, path: str) -> _Published:
    """The result in a folder. Raises ResultsError for one that is damaged, and all that parsing
    raises where cell.json has another shape."""
    content, digest = sealed(folder)
    cell = Cell.from_dict(content["cell"])
    if cell.fingerprint != content["fingerprint"]:
        raise ResultsError("its fingerprint is not that of its cell")
    if content["path"] != path:
        raise ResultsError(f"it was published as {content['path']!r}, and was moved since")
    if wrong := damage(folder, content):
        raise ResultsError(wrong)
    need, limits = cell.need, cell.limits
    if {*map(type, (need.gpus, need.vram, limits.tries, cell.priority))} != {int}:
        raise ValueError("its needs, tries or priority are not whole numbers")
    return _Published(path=path, cell=cell, outcome=parsed_outcome(content, digest))


def _placed(
    results: Iterable[_Published], records: Iterable[CellRecord]
) -> tuple[list[_Published], list[tuple[str, str]]]:
    """The results that lie where the ledger has their cells, or may have them, and the others."""
    paths = {record.path: record.fingerprint for record in records}
    known_paths = {fingerprint: path for path, fingerprint in paths.items()}
    folders = {path.rpartition("/")[0] for path in paths}
    placed, misplaced = [], []
    for result in results:
        path, fingerprint = result.path, result.cell.fingerprint
        above = path.rpartition("/")[0]
        if known_paths.get(fingerprint, path) != path:
            misplaced.append((path, f"the ledger has its cell at {known_paths[fingerprint]}"))
        elif fingerprint not in known_paths and (
            path in paths or path in folders or above in paths
        ):
            misplaced.append((path, "the ledger gave this place to another cell"))
        else:
            paths[path], known_paths[fingerprint] = fingerprint, path
            folders.add(above)
            placed.append(result)
    return placed, misplaced


def _make_pending(ledger: Ledger, record: CellRecord) -> None:
    """Have a cell claimable that nobody holds."""
    state = record.state
    if record.ready_in > 0:  # it waits for its next try: cancelled and asked for again, it does not
        ledger.record(Event(kind="cancel_asked", fingerprint=record.fingerprint))
        state = "cancelled"
    if state in FINAL_STATES:
        ledger.record(Event(kind="retry_asked", fingerprint=record.fingerprint))
