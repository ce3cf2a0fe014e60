"""Putting right what `results.verify` found: nothing is deleted, and nothing good is run again.

What lies where it must not is moved to ``.evidence/<moment>/<path>``, also what was put into the
folder of a good result, which stays; what an archive left there that was cut short is ended. A
whole result that lies elsewhere, under ``.attempts``, in ``.evidence`` or at another cell's place,
is put where it belongs. What a store or another host has is left to `merge`. Cells whose result is
nowhere become pending again, with the samples that are still as they were sealed. Each step can be
the last one: the next repair goes on from there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import field_values
from benchfleet.domain.event import Event
from benchfleet.domain.humanize import counted
from benchfleet.errors import ResultsError
from benchfleet.ledger.base import Ledger
from benchfleet.results import layout as names
from benchfleet.results.archive import Archive
from benchfleet.results.import_samples import keep_samples
from benchfleet.results.layout import Layout
from benchfleet.results.publish import move, set_aside
from benchfleet.results.read import (
    damage,
    file_damage,
    file_names,
    sealed,
    sealed_attempts,
    unsealed,
)
from benchfleet.results.verify import Finding

MOVED = frozenset(  # goes to the evidence
    {"outdated", "damaged", "misplaced", "foreign", "occupied", "extra"}
)
REPAIRED = MOVED | {"gone", "unpublished"}
_LEFT_CAMPAIGN = (
    "its cell is not in the campaign any more: `run` skips it until the campaign has it again"
)
Act = Literal["kept as evidence", "put back", "pending again", "left"]


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """One thing that was done, or could not be."""

    path: str  # of the cell
    act: Act
    detail: str = ""  # where it is now, or why it was left

    def to_dict(self) -> dict[str, str]:
        return field_values(self)


def repair(
    ledger: Ledger,
    layout: Layout,
    findings: Collection[Finding],
    *,
    moment: str,
    campaign_cells: Collection[str] | None = None,
) -> Iterator[Repaired]:
    """Put right what can be; `moment` names the folder of the evidence. `campaign_cells` are the
    fingerprints of the campaign (None: all). A ledger that refuses writes raises before anything is
    moved."""
    wrong = [one for one in findings if one.kind in REPAIRED and one.spoils]
    if wrong:
        ledger.record(Event(kind="repair_began", data={"moment": moment}))
    for finding in findings:
        if finding.kind == "extra":
            yield from _tidy(layout, finding, moment)
    reasons = {finding.fingerprint: finding for finding in wrong}
    moved: dict[str, Path] = {}  # by fingerprint of the place
    for finding in wrong:
        if finding.kind not in MOVED:
            continue
        try:
            evidence = set_aside(layout, finding.path, moment)
        except OSError as error:
            del reasons[finding.fingerprint]
            yield Repaired(path=finding.path, act="left", detail=str(error))
            continue
        if evidence is not None:
            moved[finding.fingerprint] = evidence
            relative = evidence.relative_to(layout.root).as_posix()
            yield Repaired(path=finding.path, act="kept as evidence", detail=relative)
    damaged = {moved.get(finding.fingerprint) for finding in wrong if finding.kind == "damaged"}
    records = list(ledger.cells(states=["success"], fingerprints=set(reasons)))
    unknown = [layout.root / finding.path for finding in findings if finding.kind == "unknown"]
    folders = [one for one in _candidate_folders(layout, records, unknown) if one not in damaged]
    whole = _whole_results(layout, records, folders)
    for record in records:
        if os.path.lexists(layout.published(record.path)):
            continue  # another put it there
        home = whole.get(record.outcome.digest if record.outcome else "")
        if home is None and reasons[record.fingerprint].elsewhere:
            continue
        done = _restore(layout, record, home, moved.get(record.fingerprint))
        if done.act == "pending again":
            data = {"reason": f"verify: {reasons[record.fingerprint].message}"}
            ledger.record(Event(kind="retry_asked", fingerprint=record.fingerprint, data=data))
            if campaign_cells is not None and record.fingerprint not in campaign_cells:
                detail = "; ".join(filter(None, (done.detail, _LEFT_CAMPAIGN)))
                done = replace(done, detail=detail)
        yield done


def _restore(layout: Layout, record: CellRecord, home: Path | None, moved: Path | None) -> Repaired:
    """Put the whole result at `home` back, or keep what samples are as they were sealed."""
    try:
        if home is not None:
            move(home, layout.published(record.path))
            relative = home.relative_to(layout.root).as_posix()
            return Repaired(path=record.path, act="put back", detail=f"from {relative}")
        samples = _samples_of(layout, record, moved)
    except (OSError, ResultsError) as error:
        return Repaired(path=record.path, act="left", detail=str(error))
    detail = f"with {counted(samples, 'sample')} as before" if samples else ""
    return Repaired(path=record.path, act="pending again", detail=detail)


def _tidy(layout: Layout, finding: Finding, moment: str) -> Iterator[Repaired]:
    """Move what was never sealed out of the folder of a result, also the copies of an archive that
    was cut short."""
    folder = layout.root / finding.path
    try:
        with Archive(layout, now=0.0).lock():  # one at work needs its copies
            for name in unsealed(file_names(folder), sealed(folder)[0]["files"]):
                if evidence := set_aside(layout, f"{finding.path}/{name}", moment):
                    relative = evidence.relative_to(layout.root).as_posix()
                    yield Repaired(path=finding.path, act="kept as evidence", detail=relative)
    except (OSError, ResultsError) as error:
        yield Repaired(path=finding.path, act="left", detail=str(error))


def _candidate_folders(
    layout: Layout, records: Iterable[CellRecord], unknown: Iterable[Path]
) -> list[Path]:
    """Folders other than their own that may hold results of these cells."""
    among = {str(record.fingerprint) for record in records}
    evidence = (file.parent for file in layout.evidence.glob(f"*/**/{names.CELL}"))
    return [*sealed_attempts(layout, among), *unknown, *evidence]


def _whole_results(
    layout: Layout, records: Iterable[CellRecord], folders: Iterable[Path]
) -> dict[str, Path]:
    """The folders with a whole result, by the digest that the ledger has of it."""
    digests = {record.outcome.digest for record in records if record.outcome}
    results: dict[str, Path] = {}
    for folder in folders:
        try:
            content, digest = sealed(folder)
            if digest in digests and not damage(folder, content):
                results.setdefault(digest, folder)
        except (ResultsError, AttributeError, TypeError):
            continue
    return results


def _samples_of(layout: Layout, record: CellRecord, folder: Path | None) -> int:
    """Keep the samples of a damaged result for the next attempt where they are as they were."""
    if folder is None or record.outcome is None:
        return 0
    try:
        content, digest = sealed(folder)
    except ResultsError:
        return 0
    sound = digest == record.outcome.digest and names.SAMPLES in content["files"]
    if not sound or file_damage(folder, names.SAMPLES, content["files"][names.SAMPLES]):
        return 0
    return keep_samples(layout, record.fingerprint, folder / names.SAMPLES)
