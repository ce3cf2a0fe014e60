"""The contract of a placement policy: which waiting cells a free slot takes.

A policy is a class that is made without arguments and has two methods. It holds no state and has no
side effects. Its package registers it as an entry point of the group ``benchfleet.policies``.

* `rank` places a cell among the cells of its model. The runner calls it once for cells of the same
  kind, and again when their expected time changes.
* `preference` gives each model a weight. The runner calls it for a free slot, and with no model
  loaded to decide whether to open another one.

The runner claims by priority first, then by rank plus weight, then in the order of enrolment. The
smaller sum goes first, so the preferred model has the smallest weight. The built-in policies use
seconds for both.

A policy that returns None leaves the slot idle. If that leaves every slot idle, the runner ignores
it and takes any waiting cell.

All times are expected seconds, learned from cells that ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from benchfleet.domain.cell import Cell


@dataclass(kw_only=True)
class Work:
    """The waiting cells of one model that need the same kind of slot."""

    load_key: str  # of the model
    cells: int  # that wait
    seconds: float  # expected for all these cells together; before any time is known, 1 per cell
    has_times: bool = False  # False: `seconds` is only the number of cells
    load: float = 0.0  # seconds to load the model, at least those that a load now takes; 0: unknown
    serving: int = 0  # other slots that have the model loaded or load it
    occupied: bool = False  # all of these are at cells that should take longer than a load


@dataclass(frozen=True, kw_only=True)
class Preference:
    """The weight of each model for one slot; the smallest goes first."""

    models: Mapping[str, float] = field(default_factory=dict)  # load key → weight
    others: float | None = (
        0.0  # weight of models not in `models`; None: the slot takes none of them
    )

    def weight(self, load_key: str) -> float | None:
        """What is added to the ranks of a model's cells; None: the slot takes none of them."""
        weights: Mapping[str, float | None] = self.models
        return weights.get(load_key, self.others)


DEFAULT = "warm-first"  # the policy of a campaign that names none


class Policy(Protocol):
    """See the module for the whole contract."""

    def rank(self, cell: Cell, expected: float | None) -> float:
        """The place of the cell among those of its model; the smallest goes first.

        `expected` is the cell's expected time in seconds, or None before any cell ended.
        """
        ...

    def preference(self, loaded: str, works: Sequence[Work]) -> Preference | None:
        """The weights of models for a free slot; None: the slot stays idle.

        `loaded` is the load key of the model in the slot, ``""`` for none. `works` comes in the
        order in which the runner first saw each of them.
        """
        ...
