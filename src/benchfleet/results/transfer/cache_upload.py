"""Uploads published results to the campaign's result cache, for other campaigns and ledgers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchfleet.domain.cell import Cell
from benchfleet.ledger.base import Ledger
from benchfleet.results.cache import ResultCache, is_cacheable
from benchfleet.results.layout import Layout
from benchfleet.results.publish import PublishAll, publish_all
from benchfleet.results.read import sealed
from benchfleet.results.transfer.upload import Uploader
from benchfleet.results.upload_queue import Entry


class CacheUploader(Uploader):
    """Uploads each result that holds on every machine, unless the cache has it."""

    def __init__(
        self,
        ledger: Ledger,
        layout: Layout,
        cache: ResultCache,
        *,
        publish_all: PublishAll = publish_all,
        notify: Callable[[str], object] = lambda message: None,
    ) -> None:
        super().__init__(
            ledger, layout, cache.store, host="", publish_all=publish_all, notify=notify
        )
        self._cache = cache

    def _outbox(self, layout: Layout) -> Path:
        return layout.cache_outbox

    def _send(self, entry: Entry) -> None:
        folder = self._layout.published(entry.path)
        content, _ = sealed(folder)
        taken_from = (content["provenance"].get("taken_from") or {}).get("cache")
        if taken_from == self._cache.display_url or not is_cacheable(
            Cell.from_dict(content["cell"])
        ):
            return
        if all((folder / name).exists() for name in content["files"]):  # none was archived
            self._cache.put(folder, entry.fingerprint, entry.digest)
