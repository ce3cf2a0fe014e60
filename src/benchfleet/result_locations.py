"""Where results are: here, waiting to be published or sent, elsewhere, or gone."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Fingerprint
from benchfleet.domain.event import STORED, Event
from benchfleet.domain.humanize import counted, examples
from benchfleet.domain.slots import BEGAN
from benchfleet.errors import StoreUnreachable
from benchfleet.ledger.history import find_results_elsewhere
from benchfleet.results.layout import CELL
from benchfleet.results.read import is_published, sealed_attempts
from benchfleet.results.upload_queue import UploadQueue
from benchfleet.study import Study


def rerun_deleted(study: Study, records: Iterable[CellRecord]) -> list[CellRecord]:
    """Put the cells back to pending whose result folders were deleted here, and return them."""
    deleted = ResultLocator(study).deleted(records)
    if not deleted or (ledger := study.open_existing_ledger(writes=True)) is None:
        return []
    with closing(ledger):
        for record in deleted:
            ledger.record(Event(kind="retry_asked", fingerprint=record.fingerprint))
    return deleted


def deleted_notice(deleted: Sequence[CellRecord]) -> str:
    """A sentence on results that were deleted and are computed again."""
    results = f"{counted(len(deleted), 'result')} {'was' if len(deleted) == 1 else 'were'}"
    waits = "its cell is pending" if len(deleted) == 1 else "their cells are pending"
    paths = examples([record.path for record in deleted])
    return f"{results} deleted here; {waits} again: {paths}"


def _sizes(folder: Path, large: int) -> Iterator[bool]:
    """Of each file of a result, whether it is larger than that."""
    with suppress(OSError), os.scandir(folder) as files:
        for file in files:
            yield file.stat(follow_symlinks=False).st_size > large


@dataclass(frozen=True)
class ResultLocator:
    """What the ledger has as done, held against what lies in the results folder."""

    study: Study

    def missing(
        self, records: Iterable[CellRecord], *, lost_hosts: Collection[str] = ()
    ) -> list[CellRecord]:
        """The cells that the ledger has as done and whose results are nowhere, or only on these
        hosts."""
        absent = self.absent(records)
        elsewhere = self.elsewhere(absent, lost_hosts=lost_hosts)
        return [record for record in absent if record.fingerprint not in elsewhere]

    def deleted(self, records: Iterable[CellRecord]) -> list[CellRecord]:
        """The lost results that certainly were in this folder: whole folders, since what remains
        of one would be in the way of the new result."""
        root = self.study.layout.root
        lost = [r for r in self.missing(records) if not os.path.lexists(root / r.path)]
        if not lost or not self.study.url:
            return lost
        events, began = self._history({str(record.fingerprint) for record in lost})
        folders = {event.data.get("runner"): event.data.get("folder") for event in began}
        own = self.study.layout.own_id()
        made_by = {e.fingerprint: e.data["runner"] for e in events if e.kind == "finished"}
        return [r for r in lost if own and folders.get(made_by.get(r.fingerprint)) == own]

    def _history(self, fingerprints: set[str]) -> tuple[list[Event], list[Event]]:
        """The finishes and uploads of these cells, and the starts of all runners."""
        ledger = self.study.open_existing_ledger() if fingerprints else None
        if ledger is None:
            return [], []
        with closing(ledger):
            events = ledger.events(fingerprints=fingerprints, kinds={"finished", STORED})
            return list(events), list(ledger.events(fingerprints={""}, kinds={BEGAN}))

    def absent(self, records: Iterable[CellRecord]) -> list[CellRecord]:
        """The cells that the ledger has as done and whose results are not in this folder."""
        absent = [r for r in records if r.state == "success" and not self._has_results(r)]
        waiting = self._waiting(absent)
        # Asked again: another runner may have published one between the two looks.
        return [r for r in absent if r.fingerprint not in waiting and not self._has_results(r)]

    def elsewhere(
        self, records: Sequence[CellRecord], *, lost_hosts: Collection[str] = ()
    ) -> dict[str, str]:
        """Where the results of these cells were seen last, by fingerprint: a store, the ledger's
        repository, or a host with another folder, except these. Results of this folder are not
        included."""
        digests = {str(r.fingerprint): r.outcome.digest for r in records if r.outcome}
        if not digests:
            return {}
        events, began = self._history(set(digests))
        own_folder = self.study.layout.own_id()
        known_locations = find_results_elsewhere(events, began, digests, own_folder=own_folder)
        locations = {name: host for name, host in known_locations.items() if host not in lost_hosts}
        others = {r.path: r.fingerprint for r in records if r.fingerprint not in locations}
        return locations | self._in_repository(others, digests)

    def _in_repository(
        self, paths: Mapping[str, Fingerprint], digests: Mapping[str, str]
    ) -> dict[str, str]:
        """The results at these paths that the branches of a git ledger have, by fingerprint. Not
        those of which large files stayed on their host."""
        if not paths or not self.study.url.startswith("git+"):
            return {}
        if (ledger := self.study.open_existing_ledger()) is None:
            return {}
        with closing(ledger), suppress(StoreUnreachable):
            store = ledger.results_store()
            store.expect({path: digests.get(name, "") for path, name in paths.items()})
            found_digests = store.digests(list(paths))
            return {
                str(name): store.display_url
                for path, name in paths.items()
                if found_digests.get(path) == digests.get(name, "") and store.is_complete(path)
            }
        return {}

    def unpublished(self, records: Iterable[CellRecord]) -> list[CellRecord]:
        """The cells that are done and sealed, and that the next run puts at their public path."""
        done = [record for record in records if record.state == "success"]
        waiting = self._waiting(done)
        return [
            record
            for record in done
            if (digest := waiting.get(record.fingerprint)) is not None
            and not is_published(self.study.layout, record.path, digest)
        ]

    def has_unsent(self) -> bool:
        """Whether results wait for their upload to the campaign's store, or to its cache."""
        layout = self.study.layout
        queues = {
            self.study.campaign.store_url: UploadQueue(layout.outbox),
            self.study.result_cache_url: UploadQueue(layout.cache_outbox),
        }
        return any(len(queue) > 0 or not queue.is_for(url) for url, queue in queues.items() if url)

    def oversized(self, records: Iterable[CellRecord]) -> tuple[int, int]:
        """How many results in this folder have files that are too large for the ledger's
        repository and go nowhere else, and how large a file may be, in bytes."""
        if self.study.campaign.store_url or not self.study.url.startswith("git+"):
            return 0, 0
        from benchfleet.ledger.git.address import address_of

        large = address_of(self.study.url).large
        folders = (self.study.layout.published(r.path) for r in records if r.state == "success")
        return sum(any(_sizes(folder, large)) for folder in folders), large

    def _has_results(self, record: CellRecord) -> bool:
        # Text, not a Path: this is asked of every cell of a campaign.
        return os.path.exists(f"{self.study.layout.root}/{record.path}/{CELL}")

    def _waiting(self, records: Iterable[CellRecord]) -> dict[str, str]:
        """The digests of the sealed attempts that the ledger took, by fingerprint."""
        done = {str(record.fingerprint): record for record in records}
        sealed = sealed_attempts(self.study.layout, done) if done else {}
        waiting = {}
        for folder, digest in sealed.items():
            outcome = done[folder.parent.name].outcome
            if outcome is not None and outcome.digest == digest:
                waiting[folder.parent.name] = digest
        return waiting
