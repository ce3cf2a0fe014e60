"""Downloads results that the ledger has as done into this host's results folder."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from benchfleet.domain.attempt import CellRecord
from benchfleet.errors import ResultsError
from benchfleet.results.disk import subfolders
from benchfleet.results.incoming_check import has_arrived, refusal
from benchfleet.results.layout import CELL, Layout
from benchfleet.results.publish import move, set_aside
from benchfleet.results.read import damage, file_names, sealed
from benchfleet.results.stores.base import ResultStore

_BATCH_RESULTS = 200  # fetched before they are checked
_LEFT_S = 86_400.0  # seconds after which nobody uses a folder for arrivals any more


@dataclass(kw_only=True)
class Downloads:
    """The outcome of a download."""

    came: dict[str, str] = field(default_factory=dict)  # path → store
    replaced: dict[str, str] = field(default_factory=dict)  # path → evidence of what lay there
    refused: list[tuple[str, str, str]] = field(default_factory=list)  # path, store, reason
    away: dict[str, str] = field(default_factory=dict)  # unreachable store → reason
    missing: list[CellRecord] = field(default_factory=list)  # not in any store


def download_results(
    layout: Layout,
    records: Sequence[CellRecord],
    stores: Sequence[ResultStore],
    *,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Downloads:
    """Fetch each result from the first store that has it, check it against the ledger and its
    seal, and publish it. What lies there that is not the result of the ledger goes to the evidence;
    see `local_defect`. `progress` receives, for each store, how many of how many were checked."""
    downloads = Downloads()
    missing = {record.path: record for record in records}
    for store in stores:
        paths, done = iter(list(missing)), 0
        while batch := list(islice(paths, _BATCH_RESULTS)):
            try:
                for path in _download_batch(
                    layout, store, [missing[path] for path in batch], downloads
                ):
                    del missing[path]
            except ResultsError as error:
                downloads.away[store.display_url] = str(error)
                break
            done += len(batch)
            progress(done, len(records))
    downloads.missing = list(missing.values())
    return downloads


def _download_batch(
    layout: Layout, store: ResultStore, records: Sequence[CellRecord], downloads: Downloads
) -> list[str]:
    """Fetch, check and publish these results; the paths that are public now."""
    published = []
    with arriving(layout) as into:
        store.expect({one.path: one.outcome.digest for one in records if one.outcome})
        store.fetch([record.path for record in records], into)
        for record in records:
            if not has_arrived(into, record.path):
                continue
            digest = record.outcome.digest if record.outcome else ""
            why = refusal(into, record.path, record.fingerprint, digest)
            if why:
                downloads.refused.append((record.path, store.display_url, why))
                continue
            sync_files(into / record.path)
            public = layout.published(record.path)
            if _is_folder(public) and local_defect(layout, record):
                _replace(layout, record.path, downloads)
            if os.path.lexists(public):  # another process published it, or it is not a result
                downloads.refused.append((record.path, store.display_url, f"{public} is taken"))
                continue
            move(into / record.path, public)
            downloads.came[record.path] = store.display_url
            published.append(record.path)
    return published


@contextmanager
def arriving(layout: Layout) -> Iterator[Path]:
    """An empty folder for what arrives; what is left there in the end goes, and so does what a
    process that was killed left a day ago."""
    into = layout.arrivals / uuid.uuid4().hex
    into.mkdir(parents=True)
    for folder in map(Path, subfolders(layout.arrivals)):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _LEFT_S:
                shutil.rmtree(folder)
    try:
        yield into
    finally:
        shutil.rmtree(into, ignore_errors=True)


def _is_folder(public: Path) -> bool:
    return public.is_dir() and not public.is_symlink()


def _replace(layout: Layout, path: str, downloads: Downloads) -> None:
    """Move what lies at the path to the evidence."""
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    if (evidence := set_aside(layout, path, moment)) is not None:
        downloads.replaced[path] = evidence.relative_to(layout.root).as_posix()


def sync_files(folder: Path) -> None:
    """Make the content of a folder's files durable."""
    for name in file_names(folder):
        handle = os.open(folder / name, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def local_defect(layout: Layout, record: CellRecord) -> str:
    """Why the local result is not the one that the ledger has; ``""`` if it is."""
    folder = layout.published(record.path)
    try:
        content, digest = sealed(folder)
    except ResultsError as error:
        return str(error)
    if record.outcome is None or digest != record.outcome.digest:
        return f"its {CELL} is not the one that the ledger has"
    return damage(folder, content)
