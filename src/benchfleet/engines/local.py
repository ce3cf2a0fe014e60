"""Slots on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchfleet.engines.base import EngineEvent, Order, SlotSpec
from benchfleet.engines.channels import ChannelEngine
from benchfleet.engines.child import Child

_PACKAGE = Path(__file__).parents[1]
_LAUNCHER = _PACKAGE / "slot" / "launch.py"


class LocalEngine(ChannelEngine):
    """Opens slots as child processes; see `benchfleet.engines.base` for the contract.

    A slot here is patient when it hears nothing, because a runner that is suspended for a while
    means no harm, and one that died is known at once.
    """

    def __init__(
        self,
        post: Callable[[EngineEvent], None],
        *,
        heartbeat: float = 5.0,
        silence: float = 60.0,
        patience: float = 1800.0,
    ) -> None:
        super().__init__(post, heartbeat=heartbeat, silence=silence, patience=patience)

    def _start(self, spec: SlotSpec) -> tuple[Child, dict[str, Any]]:
        words = [sys.executable, "-S", "-E", str(_LAUNCHER)]
        return Child(spec.slot, words, log=Path(spec.log)), {
            "log": spec.log,
            "python": spec.python,
            "package": str(_PACKAGE),
            "parent": os.getpid(),
        }

    def _order(self, child: Child, order: Order) -> dict[str, Any]:
        scratch = f"{order.log}.scratch"
        return {"cell": order.cell.to_dict(), "log": order.log, "scratch": scratch}
