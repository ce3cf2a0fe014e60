"""Takes results from the campaign's result cache, before a run claims its cells.

Each is sealed again outside of the cells' folders, then takes the usual way: claim, attempt's
folder, finish, public path. So whatever is killed, the next run completes or repeats it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.slots import BEGAN, ENDED
from benchfleet.errors import LedgerError, PluginError, ResultsError
from benchfleet.results.cache import ResultCache, is_cacheable, reseal
from benchfleet.results.disk import sync_folder
from benchfleet.results.publish import PublishAll
from benchfleet.results.transfer.download import arriving
from benchfleet.results.write import AttemptFolder
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.recovery.adopt import CLAIM_BATCH, claims_of

Sealed = tuple[Path, Outcome]  # a result's folder, and how its attempt ended


@dataclass(kw_only=True)
class TakenResults:
    """What was taken from a result cache."""

    cache: str = ""  # its URL, without credentials
    results: int = 0
    seconds: float = 0.0  # that their cells took where they ran
    problems: list[str] = field(default_factory=list)


class CachedResults:
    """The results that a cache has of some cells of a campaign."""

    def __init__(self, context: RunnerContext, cache: ResultCache, publish_all: PublishAll) -> None:
        self._ledger, self._layout = context.ledger, context.layout
        self._local_host, self._cache = context.local_host, cache
        self._publish_all = publish_all
        # A runner of its own: what it held is released in the end, or as that of a killed run.
        self._runner = RunnerId(f"cache-{os.urandom(8).hex()}")
        self._total = TakenResults(cache=cache.display_url)

    def take(self, cells: Sequence[Cell]) -> TakenResults:
        """Publish those of pending cells that nobody runs. A cache that cannot be used is a
        problem in the answer: the cells run then."""
        try:
            paths = self._open_paths(cells)
            digests = self._cache.digests(paths)
            if digests:
                by_name = {str(cell.fingerprint): cell for cell in cells}
                self._take({name: by_name[name] for name in digests}, paths, digests)
        except (PluginError, ResultsError, OSError) as error:
            self._total.problems.append(f"the result cache was not used: {error}")
        return self._total

    def _open_paths(self, cells: Sequence[Cell]) -> dict[str, str]:
        """The paths of the cells that may be taken: those that wait for nothing."""
        among = {str(cell.fingerprint) for cell in cells if is_cacheable(cell)}
        pending = self._ledger.cells(states=["pending"], fingerprints=among) if among else ()
        return {
            str(record.fingerprint): record.path
            for record in pending
            if record.ready_in <= 0 and not os.path.lexists(self._layout.published(record.path))
        }

    def _take(
        self, cells: Mapping[str, Cell], paths: Mapping[str, str], digests: Mapping[str, str]
    ) -> None:
        host = self._local_host
        data = {"runner": self._runner, "machine": host.machine, "process": host.process}
        data |= {"space": host.space, "host": host.host, "folder": host.folder}
        self._ledger.record(Event(kind=BEGAN, data=data))
        try:
            rest = iter(cells)
            while batch := list(islice(rest, CLAIM_BATCH)):
                with arriving(self._layout) as into:
                    self._publish(self._sealed(batch, cells, paths, digests, into))
        finally:
            with suppress(LedgerError):
                running = self._ledger.cells(states=["running"], fingerprints=cells)
                leases = [record.lease for record in running if record.runner == self._runner]
                if leases:
                    self._ledger.release(leases, "its run was stopped")
                self._ledger.record(Event(kind=ENDED, data={"runner": self._runner}))

    def _sealed(
        self,
        batch: Sequence[str],
        cells: Mapping[str, Cell],
        paths: Mapping[str, str],
        digests: Mapping[str, str],
        into: Path,
    ) -> dict[str, Sealed]:
        """Fetch these results, check them, and seal each as that of its cell; by fingerprint."""
        sealed: dict[str, Sealed] = {}
        for cached in self._cache.fetch({name: digests[name] for name in batch}, into):
            name, url = cached.fingerprint, self._cache.display_url
            if cached.problem:
                where = f"{paths[name]} was not taken from {url}"
                self._total.problems.append(f"{where}: {cached.problem}")
                continue
            outcome = reseal(cached.folder, cells[name], paths[name], url)
            sealed[name] = cached.folder, outcome
        return sealed

    def _publish(self, sealed: dict[str, Sealed]) -> None:
        for claims in claims_of(self._ledger, self._runner, sealed):
            ended = [(claim, *self._moved(claim, sealed)) for claim in claims]
            parents = {folder.parent for _, folder, _ in ended}
            for folder in (*parents, self._layout.attempts, self._layout.root):
                sync_folder(folder)
            refused = self._ledger.finish_all([(claim.lease, how) for claim, _, how in ended])
            moves = []
            for (claim, folder, outcome), error in zip(ended, refused, strict=True):
                if error is not None:  # another runner has the cell
                    shutil.rmtree(folder, ignore_errors=True)
                    continue
                moves.append((folder, self._layout.published(claim.path)))
                self._total.results += 1
                self._total.seconds += sum(outcome.seconds.values())
            problems = self._publish_all(moves)
            self._total.problems += [str(problem) for problem in problems if problem]

    def _moved(self, claim: Claim, sealed: dict[str, Sealed]) -> Sealed:
        """Move a sealed result to the folder of its attempt."""
        arrived, outcome = sealed.pop(claim.lease.fingerprint)
        folder = AttemptFolder(self._layout.attempt(claim.lease)).folder
        os.rename(arrived, folder)
        return folder, outcome
