"""Takes results from the campaign's result cache, before a run claims its cells.

Each is sealed again outside of the cells' folders, then takes the usual way: claim, attempt's
folder, finish, public path. So whatever is killed, the next run completes or repeats it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.errors import PluginError, ResultsError
from benchfleet.results.cache import ResultCache, is_cacheable, reseal
from benchfleet.results.disk import sync_folder
from benchfleet.results.publish import Moves, PublishAll
from benchfleet.results.transfer.download import arriving
from benchfleet.results.write import AttemptFolder
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.recovery.adopt import CLAIM_BATCH, Ended, finish_cells, registered

Sealed = tuple[Outcome, Path]  # how an attempt ended, and its folder


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
        rest = iter(cells)
        with registered(self._ledger, self._runner, self._local_host):
            while batch := list(islice(rest, CLAIM_BATCH)):
                with arriving(self._layout) as into:
                    self._finish(self._sealed(batch, cells, paths, digests, into))

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
            name = cached.fingerprint
            if cached.problem:
                where = f"{paths[name]} was not taken from {self._cache.entry_url(name)}"
                self._total.problems.append(f"{where}: {cached.problem}")
                continue
            outcome = reseal(cached.folder, cells[name], paths[name], self._cache.display_url)
            sealed[name] = outcome, cached.folder
        return sealed

    def _finish(self, sealed: Mapping[str, Sealed]) -> None:
        left_over = finish_cells(
            self._ledger, self._runner, sealed, self._moved, publish_all=self._published
        )
        ended = [one for one in sealed.values() if one not in left_over]
        self._total.results += len(ended)
        self._total.seconds += sum(sum(outcome.seconds.values()) for outcome, _ in ended)

    def _moved(self, claim: Claim, sealed: Sealed) -> Ended:
        """Move a sealed result to the folder of its attempt."""
        outcome, arrived = sealed
        folder = AttemptFolder(self._layout.attempt(claim.lease)).folder
        os.rename(arrived, folder)
        for part in (folder.parent, self._layout.attempts, self._layout.root):
            sync_folder(part)
        return outcome, (folder, self._layout.published(claim.path))

    def _published(self, moves: Moves) -> Sequence[ResultsError | None]:
        """Publish these; a problem ends nothing."""
        self._total.problems += [str(problem) for problem in self._publish_all(moves) if problem]
        return ()
