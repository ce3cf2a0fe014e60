"""Where results are: here, waiting to be published or sent, elsewhere, or gone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.event import STORED
from benchfleet.domain.slots import BEGAN
from benchfleet.ledger.history import find_results_elsewhere
from benchfleet.results.layout import CELL
from benchfleet.results.read import is_published, sealed_attempts
from benchfleet.results.upload_queue import UploadQueue
from benchfleet.study import Study


def _sizes(folder: Path, large: int) -> Iterator[bool]:
    """Of each file of a result, whether it is larger than that."""
    with suppress(OSError):
        for file in os.scandir(folder):
            yield file.stat(follow_symlinks=False).st_size > large


@dataclass(frozen=True)
class ResultLocator:
    """What the ledger has as done, held against what lies in the results folder."""

    study: Study

    def gone(self, records: Iterable[CellRecord]) -> list[CellRecord]:
        """The cells that the ledger has as done and whose results are nowhere."""
        absent = self.absent(records)
        elsewhere = self.elsewhere(absent)
        return [record for record in absent if record.fingerprint not in elsewhere]

    def absent(self, records: Iterable[CellRecord]) -> list[CellRecord]:
        """The cells that the ledger has as done and whose results are not in this folder."""
        absent = [r for r in records if r.state == "success" and not self._has_results(r)]
        waiting = self._waiting(absent)
        # Asked again: another runner may have published one between the two looks.
        return [r for r in absent if r.fingerprint not in waiting and not self._has_results(r)]

    def elsewhere(self, records: Iterable[CellRecord]) -> dict[str, str]:
        """Where the results of these cells were seen last, by fingerprint: a place, or a host with
        a folder of its own. Those that should be in this folder are not among them."""
        digests = {str(r.fingerprint): r.outcome.digest for r in records if r.outcome}
        ledger = self.study.open_existing_ledger() if digests else None
        if ledger is None:
            return {}
        with closing(ledger):
            events = ledger.events(fingerprints=set(digests), kinds={"finished", STORED})
            began = ledger.events(fingerprints={""}, kinds={BEGAN})
        return find_results_elsewhere(events, began, digests, own_folder=self.study.layout.own_id())

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

    def unsent(self) -> bool:
        """Whether results wait to be put to the campaign's place."""
        store_url, queue = self.study.campaign.store_url, UploadQueue(self.study.layout)
        return bool(store_url) and (len(queue) > 0 or not queue.is_for(store_url))

    def kept_back(self, records: Iterable[CellRecord]) -> tuple[int, int]:
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
        found = sealed_attempts(self.study.layout, done) if done else {}
        waiting = {}
        for folder, digest in found.items():
            outcome = done[folder.parent.name].outcome
            if outcome is not None and outcome.digest == digest:
                waiting[folder.parent.name] = digest
        return waiting
