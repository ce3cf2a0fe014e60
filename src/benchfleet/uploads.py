"""The uploads of a run: of its results to the campaign's store, and to its result cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchfleet.ledger.base import Ledger
from benchfleet.results.publish import PublishAll, publish_all
from benchfleet.results.transfer.targets import CacheTarget, StoreTarget
from benchfleet.results.transfer.upload import Uploader
from benchfleet.runner.events import EventQueue, Interrupted, ThreadWarning
from benchfleet.runner.run_end import RunEnd
from benchfleet.study import Study

TIMEOUT_S = 3600.0  # for the uploads that are left at the end
INTERRUPTED_TIMEOUT_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Uploads:
    """What uploads the results of a run."""

    to_store: Uploader | None
    to_cache: Uploader | None

    @property
    def publish_all(self) -> PublishAll:
        """Publishes results and queues them for all uploads."""
        last = self.to_cache or self.to_store
        return last.publish_all if last else publish_all

    def finish(self, inbox: EventQueue, end: RunEnd) -> RunEnd:
        """How the run ended, once the results that are left were sent, or could not be. Who
        interrupts it does not wait for that. What the cache lacks is no fault of the run."""
        uploaders = self._uploaders
        for uploader in uploaders:
            uploader.stop()
        until = inbox.now() + (INTERRUPTED_TIMEOUT_S if end.interrupted else TIMEOUT_S)
        while not all(uploader.ended for uploader in uploaders) and inbox.now() < until:
            if isinstance(inbox.take(0.02), Interrupted):
                break
        if (store := self.to_store) is not None:
            end = replace(end, unsent=store.queued, problem=store.problem)
        if (cache := self.to_cache) is not None:
            end = replace(end, unsent_to_cache=cache.queued, cache_problem=cache.problem)
        return end

    @property
    def _uploaders(self) -> Sequence[Uploader]:
        return [one for one in (self.to_store, self.to_cache) if one]

    def start(self) -> None:
        """Upload in threads from now on."""
        for uploader in self._uploaders:
            uploader.start()


def start_uploads(study: Study, ledger: Ledger, inbox: EventQueue) -> Uploads:
    """Upload to the store and to the cache of the campaign, as far as it has them. Raises
    BenchfleetError for a wrong address."""

    def notify(message: str) -> None:
        inbox.post(ThreadWarning(message=message))

    to_store = to_cache = None
    if (store := study.result_store()) is not None:
        target = StoreTarget(ledger, study.layout, store, host=study.host)
        to_store = Uploader(ledger, study.layout, target, notify=notify)
    if (cache := study.result_cache()) is not None:
        publish = to_store.publish_all if to_store else publish_all
        to_cache = Uploader(
            ledger,
            study.layout,
            CacheTarget(study.layout, cache),
            publish_all=publish,
            notify=notify,
        )
    uploads = Uploads(to_store=to_store, to_cache=to_cache)
    uploads.start()
    return uploads
