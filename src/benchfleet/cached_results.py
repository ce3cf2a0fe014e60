"""Which cells of a campaign its result cache has."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.errors import PluginError, ResultsError
from benchfleet.results.cache import is_cacheable
from benchfleet.study import Study


def in_cache(
    study: Study, cells: Sequence[Cell], records: Sequence[CellRecord]
) -> tuple[set[str], list[str]]:
    """The fingerprints of those pending cells that a run would take from the cache, and warnings if
    it cannot be asked. Raises BenchfleetError for a wrong address."""
    if (cache := study.result_cache()) is None:
        return set(), []
    others = {str(record.fingerprint) for record in records if record.state != "pending"}
    pending = {str(cell.fingerprint) for cell in cells if is_cacheable(cell)} - others
    try:
        return {*cache.digests(pending)}, []
    except (PluginError, ResultsError, OSError) as error:
        return set(), [f"the result cache cannot be used: {error}"]
