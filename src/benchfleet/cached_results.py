"""Takes results from the campaign's result cache, before its cells are run."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from benchfleet.domain.attempt import CellRecord, Claim, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.engines.processes import process_space
from benchfleet.errors import PluginError, ResultsError
from benchfleet.import_cells import importing, publish_results
from benchfleet.results.cache import Cached, ResultCache, is_cacheable, reseal
from benchfleet.results.read import sealed
from benchfleet.results.transfer.download import arriving
from benchfleet.results.write import AttemptFolder
from benchfleet.runner.recovery.rebuild import parsed_outcome
from benchfleet.runner.recovery.startup import release_killed
from benchfleet.runner.resources.local_host import LocalHost
from benchfleet.study import Study

_BATCH_RESULTS = 200  # fetched before they are entered
_MAX_SECONDS = 1e10  # of a cell; three centuries


@dataclass(frozen=True, kw_only=True)
class TakenResults:
    """What was taken from a result cache."""

    cache: str  # its URL, without credentials
    results: int = 0
    seconds: float = 0.0  # that their cells took where they ran
    refused: tuple[tuple[str, str], ...] = ()  # cell and reason
    problem: str = ""  # why the cache could not be used to the end


def in_cache(study: Study, cells: Sequence[Cell], records: Sequence[CellRecord]) -> set[str]:
    """The fingerprints of those pending cells that the campaign's result cache has. Raises what
    a result store raises."""
    if (cache := study.result_cache()) is None:
        return set()
    others = {str(record.fingerprint) for record in records if record.state != "pending"}
    pending = {str(cell.fingerprint) for cell in cells if is_cacheable(cell)} - others
    return {*cache.digests(pending)}


def take_cached(
    study: Study,
    cells: Sequence[Cell],
    *,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> TakenResults | None:
    """Publish the results that the campaign's result cache has of these cells, as far as nobody
    runs them; None without a cache. Cells that failed or were cancelled stay as they are. A cache
    that cannot be used is a problem that the answer names: the cells run then."""
    if (cache := study.result_cache()) is None:
        return None
    _release_abandoned(study)
    try:
        cached = in_cache(study, cells, study.records(cells))
        return _take(study, cache, [c for c in cells if c.fingerprint in cached], progress)
    except (PluginError, ResultsError, OSError) as error:
        return TakenResults(cache=cache.display_url, problem=str(error))


def _release_abandoned(study: Study) -> None:
    """Have cells pending that a run held which was killed, here or with an expired lease."""
    ledger = study.open_existing_ledger(writes=True)
    if ledger is None:
        return
    with closing(ledger):
        ledger.reap()
        release_killed(ledger, LocalHost(machine=socket.gethostname(), space=process_space()))


def _take(
    study: Study,
    cache: ResultCache,
    cells: Sequence[Cell],
    progress: Callable[[int, int], None],
) -> TakenResults:
    """See `take_cached`; the cache has a result of each of these cells."""
    results, seconds, done, refused = 0, 0.0, 0, list[tuple[str, str]]()
    if not cells:
        return TakenResults(cache=cache.display_url)

    def seal(folder: AttemptFolder, claim: Claim, cell: Cell, cached: Cached) -> Outcome:
        nonlocal seconds
        os.rename(cached.folder, folder.folder)
        reseal(folder.folder, cell, claim.path, cache.display_url)
        outcome = parsed_outcome(*sealed(folder.folder))
        seconds += sum(outcome.seconds.values())
        return outcome

    with importing(study, cells) as (ledger, runner):
        rest = iter(cells)
        while batch := {str(cell.fingerprint): cell for cell in islice(rest, _BATCH_RESULTS)}:
            pending = {
                str(record.fingerprint)
                for record in ledger.cells(states=["pending"], fingerprints=batch)
                if not os.path.lexists(study.layout.published(record.path))
            }
            digests = cache.digests(pending)
            with arriving(study.layout) as into:
                good = []
                for cached in cache.fetch(digests, into):
                    cell = batch[cached.fingerprint]
                    problem = cached.problem or _defect(cached.folder)
                    if problem:
                        refused.append((cell.id, problem))
                    else:
                        good.append((cell, cached))
                results += publish_results(
                    ledger, study.layout, good, seal, runner=runner
                ).published
            done += len(batch)
            progress(done, len(cells))
    return TakenResults(
        cache=cache.display_url, results=results, seconds=seconds, refused=tuple(refused)
    )


def _defect(folder: Path) -> str:
    """Why a sealed folder has no outcome; "" if it has one."""
    try:
        outcome = parsed_outcome(*sealed(folder))
    except ValueError as error:
        return str(error)
    except (ResultsError, LookupError, TypeError, AttributeError):
        return "its cell.json is not as benchfleet writes it"
    return "" if sum(outcome.seconds.values()) < _MAX_SECONDS else "it took impossibly long"
