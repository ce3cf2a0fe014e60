"""The contract of a placement policy: what it sees, and what it says.

A policy is pure: it holds no state and touches nothing. The runner asks it two things.

* `rank`, once for all cells that are alike, and again when their expected time became another:
  what places them among the cells of one model. The smaller goes first.
* `preference`, each time a slot is free: which models the slot should take, each with a weight that
  is added to the ranks of its cells.

One sum orders all waiting cells: the runner claims by priority first, then by this sum, then in the
order of enrolment. A policy that wishes for nothing leaves the slot idle; where that would leave
every slot idle the runner gives it whatever waits.

Times are seconds, and expectations: learned from what ended. A load takes at least as long as a
slot has been at it, and 0 where nobody ever saw one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from benchfleet.domain.cell import Cell


@dataclass(kw_only=True)
class Work:
    """The waiting cells that one loaded model serves, and that ask for the same of a slot."""

    load_key: str  # of the model
    cells: int  # that wait
    seconds: float  # of all of them; where nothing is known, one for each
    has_times: bool = False  # whether these seconds are more than a count
    load: float = 0.0  # seconds that the model takes to load
    serving: int = 0  # slots that have it loaded, or are about to


@dataclass(frozen=True, kw_only=True)
class Preference:
    """What a slot should be given."""

    models: Mapping[str, float] = field(default_factory=dict)  # load key → added to its ranks
    others: float | None = 0.0  # the same for all others; None: only those that are named

    def weight(self, load_key: str) -> float | None:
        """What is added to the ranks of a model's cells; None where the slot is to have none."""
        weights: Mapping[str, float | None] = self.models
        return weights.get(load_key, self.others)


DEFAULT = "warm-first"


class Policy(Protocol):
    """See the module for the whole contract."""

    def rank(self, cell: Cell, expected: float | None) -> float:
        """The place of such cells among those of their model; `expected` is None before any cell
        ended."""
        ...

    def preference(self, loaded: str, works: Sequence[Work]) -> Preference | None:
        """What a free slot with that model in memory (``""``: none) should take of these, which
        are in the order of enrolment; None for nothing."""
        ...
