"""The states a cell can be in, and which of them are final."""

from __future__ import annotations

from typing import Literal, get_args

State = Literal["pending", "running", "success", "partial", "failed", "skipped", "cancelled"]
FinalState = Literal["success", "partial", "failed", "skipped", "cancelled"]

STATES: tuple[State, ...] = get_args(State)
FINAL_STATES: tuple[FinalState, ...] = get_args(FinalState)
