"""How long a runner stays, and where its cells come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchfleet.domain.cell import Cell


def _no_more() -> Sequence[Cell]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Shift:
    """What a runner is asked beside its cells. By default they are those of a campaign's file, and
    it ends with them."""

    enrolls: bool = True  # the cells are declared here; False: the ledger told of them
    more: Callable[[], Sequence[Cell]] = _no_more  # all it is about, after somebody enrolled others
    stays: bool = False  # also where nothing is left
    seconds: float | None = None  # after which it ends, and nothing is begun that would take longer
