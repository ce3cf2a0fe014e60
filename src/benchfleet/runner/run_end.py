"""How a run ended."""

from __future__ import annotations

from dataclasses import dataclass

from benchfleet.domain.cell import Cell
from benchfleet.runner.progress import Progress


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """How a run ended."""

    progress: Progress
    seconds: float
    ran: int = 0  # attempts that ended in this run, well or badly
    interrupted: bool = False
    impossible: tuple[tuple[Cell, str], ...] = ()  # cells that no slot here can take, and why
    broken: str = ""  # why no slot could be started, where that ended the run
    ledger_away: bool = False  # that is why
    unsent: int = 0  # results that are not at the campaign's place yet
    problem: str = ""  # why, where somebody knows
    unsent_to_cache: int = 0  # results that are not in the result cache yet
    cache_problem: str = ""  # why, where somebody knows
    counts_age: float = 0.0  # seconds since all cells were counted, if the last read failed
