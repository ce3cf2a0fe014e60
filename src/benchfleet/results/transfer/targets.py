"""Where an uploader uploads results to: the campaign's result store, or its result cache."""

from __future__ import annotations

from typing import Protocol

from benchfleet.domain.cell import Cell
from benchfleet.domain.event import STORED, Event
from benchfleet.domain.part import SPLIT
from benchfleet.ledger.base import Ledger
from benchfleet.results.cache import ResultCache, is_cacheable
from benchfleet.results.layout import Layout
from benchfleet.results.read import sealed
from benchfleet.results.stores.base import ResultStore
from benchfleet.results.upload_queue import Entry, UploadQueue


class Target(Protocol):
    """Uploads results, each when it is asked to."""

    display_url: str  # without credentials
    queue: UploadQueue  # of the results folder, for this target

    def check(self) -> None:
        """Raise ResultsError or OSError if it does not answer and nothing else reports that."""

    def upload(self, entry: Entry) -> None:
        """Upload one result. Raises LedgerError, ResultsError or OSError."""


class StoreTarget:
    """The campaign's result store. Each upload is recorded in the ledger (``stored``)."""

    def __init__(self, ledger: Ledger, layout: Layout, store: ResultStore, *, host: str) -> None:
        self._ledger, self._layout, self._store, self._host = ledger, layout, store, host
        self.display_url, self.queue = store.display_url, UploadQueue(layout.outbox)

    def check(self) -> None:
        self._store.check()

    def upload(self, entry: Entry) -> None:
        self._store.put(self._layout.published(entry.path), entry.path, entry.digest)
        data = {
            "place": self.display_url,
            "path": entry.path,
            "digest": entry.digest,
            "host": self._host,
        }
        self._ledger.record(Event(kind=STORED, fingerprint=entry.fingerprint, data=data))
        self._remove_parts(entry)

    def _remove_parts(self, entry: Entry) -> None:
        """Remove the results of a cell's parts from the store, which are in its own result."""
        content, _ = sealed(self._layout.published(entry.path))
        if not content["provenance"].get("parts"):
            return
        splits = self._ledger.events(fingerprints={entry.fingerprint}, kinds={SPLIT})
        names = {name for event in splits for name in event.data["parts"]}
        for record in self._ledger.cells(fingerprints=names) if names else ():
            self._store.remove(record.path)


class CacheTarget:
    """The campaign's result cache. It takes what holds on every machine, did not come from it, and
    was not archived."""

    def __init__(self, layout: Layout, cache: ResultCache) -> None:
        self._layout, self._cache = layout, cache
        self.display_url, self.queue = cache.display_url, UploadQueue(layout.cache_outbox)

    def check(self) -> None:
        """Nothing: a run that begins asks its cache for results, and reports what it answers."""

    def upload(self, entry: Entry) -> None:
        folder = self._layout.published(entry.path)
        content, _ = sealed(folder)
        taken_from = (content["provenance"].get("taken_from") or {}).get("cache")
        is_whole = all((folder / name).exists() for name in content["files"])
        is_new = taken_from != self.display_url
        if is_whole and is_new and is_cacheable(Cell.from_dict(content["cell"])):
            self._cache.put(folder, entry.fingerprint, entry.digest)
