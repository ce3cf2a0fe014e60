"""What a run is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchfleet.domain.budget import Budget
from benchfleet.domain.cell import Cell
from benchfleet.domain.phase import Phase
from benchfleet.domain.placement import Placement
from benchfleet.domain.resource import DEFAULT_ENDPOINT_SLOTS
from benchfleet.policies.base import Policy
from benchfleet.runner.worker_options import WorkerOptions


@dataclass(frozen=True, kw_only=True)
class GateConfig:
    """The phases of a campaign, and how a runner waits for their gates."""

    phases: Sequence[Phase] = ()
    cells: Sequence[Cell] = ()  # all that the campaign's file has; a judge alone needs them
    again: Callable[[], Sequence[Cell]] | None = None  # reads them again, where they may change
    patient: bool = False  # waits for cells that keep a gate undecided, also while nobody runs them
    judge: str = ""  # who decides gates; "": the file is missing here, so others decide


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """The cells that a runner is to see to, and by which rules."""

    cells: Sequence[Cell]
    policy: Policy | None = None  # which of them first; None: the default
    gate_config: GateConfig = GateConfig()  # which of them wait for others
    placement: Callable[[], Placement] = (
        Placement  # on which machines, whenever that may have changed
    )
    endpoint_slots: int = DEFAULT_ENDPOINT_SLOTS  # cells at a time that ask one server elsewhere
    budget: Budget | None = None  # no cell begins once it is spent
    options: WorkerOptions = WorkerOptions()  # noqa: RUF009 - frozen
