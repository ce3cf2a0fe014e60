"""Bringing results that the ledger calls done into this host's folder, from wherever they lie."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from benchfleet.domain.attempt import CellRecord
from benchfleet.errors import ResultsError
from benchfleet.results.incoming_check import arrived, refusal
from benchfleet.results.layout import CELL, Layout
from benchfleet.results.publish import move
from benchfleet.results.read import damage, file_names, sealed
from benchfleet.results.stores.base import Place

_TOGETHER = 200  # results that are fetched before they are looked at


@dataclass(kw_only=True)
class Gathered:
    """What came of it."""

    came: dict[str, str] = field(default_factory=dict)  # path → the place it came from
    refused: list[tuple[str, str, str]] = field(default_factory=list)  # path, place, why
    away: dict[str, str] = field(default_factory=dict)  # place → why it told nothing
    missing: list[CellRecord] = field(default_factory=list)  # what no place had


def gather(
    layout: Layout,
    wanted: Sequence[CellRecord],
    places: Sequence[Place],
    *,
    seen: Callable[[int, int], None] = lambda done, of: None,
) -> Gathered:
    """Fetch these results from the first place that has each, hold them against the ledger and
    their seals, and publish them. Nothing that is here is touched. `seen` is told how many were
    looked at, of how many, for each place."""
    told = Gathered()
    left = {record.path: record for record in wanted}
    for place in places:
        paths, done = iter(list(left)), 0
        while some := list(islice(paths, _TOGETHER)):
            try:
                for path in _fetched(layout, place, [left[path] for path in some], told):
                    del left[path]
            except ResultsError as error:
                told.away[place.shown] = str(error)
                break
            done += len(some)
            seen(done, len(wanted))
    told.missing = list(left.values())
    return told


def _fetched(
    layout: Layout, place: Place, records: Sequence[CellRecord], told: Gathered
) -> list[str]:
    """The paths of those that came from this place and are public now."""
    into = layout.arrivals / uuid.uuid4().hex
    into.mkdir(parents=True)
    came = []
    try:
        place.fetch([record.path for record in records], into)
        for record in records:
            if not arrived(into, record.path):
                continue
            digest = record.outcome.digest if record.outcome else ""
            why = refusal(into, record.path, record.fingerprint, digest)
            if why:
                told.refused.append((record.path, place.shown, why))
                continue
            _sync(into / record.path)
            public = layout.published(record.path)
            if os.path.lexists(public):  # another brought it meanwhile, or it is no result
                told.refused.append((record.path, place.shown, f"{public} is taken"))
                continue
            move(into / record.path, public)
            told.came[record.path] = place.shown
            came.append(record.path)
    finally:
        shutil.rmtree(into, ignore_errors=True)
    return came


def _sync(folder: Path) -> None:
    for name in file_names(folder):
        handle = os.open(folder / name, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def unsound(layout: Layout, record: CellRecord) -> str:
    """Why what lies here is not the result that the ledger calls done; ``""`` where it is."""
    folder = layout.published(record.path)
    try:
        content, digest = sealed(folder)
    except ResultsError as error:
        return str(error)
    if record.outcome is None or digest != record.outcome.digest:
        return f"its {CELL} is not the one that the ledger has"
    return damage(folder, content)
