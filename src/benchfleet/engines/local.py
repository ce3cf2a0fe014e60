"""Slots on this machine."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.domain.resource import GpuChecks
from benchfleet.engines.base import (
    AttemptRequest,
    EngineEvent,
    Post,
    SlotSpec,
)
from benchfleet.engines.child import Child, create_log
from benchfleet.engines.plugin import EngineOptions, EnginePlugin
from benchfleet.engines.process_engine import ProcessEngine
from benchfleet.engines.processes import end_orphans, is_stopped, owner
from benchfleet.engines.protocol import gpu_checks
from benchfleet.engines.slot_process import LocalProcess

_PACKAGE = Path(__file__).parents[1]
_LAUNCHER = _PACKAGE / "slot" / "launch.py"
HEARTBEATS_IN_SILENCE = 12


class LocalEngine(ProcessEngine, EnginePlugin):
    """Opens slots as child processes; see `benchfleet.engines.base` for the contract.

    `orphan_timeout` is long: a slot notices at once when its runner dies, and a suspended runner
    may resume. With `checks` a slot checks its GPUs before it starts; `named`: the user named each.
    """

    remote: ClassVar[bool] = False

    @classmethod
    def open_engine(cls, post: Post, options: EngineOptions) -> LocalEngine:
        return cls(
            post,
            heartbeat=options.silence / HEARTBEATS_IN_SILENCE,
            silence=options.silence,
            checks=options.checks,
            named=options.named,
        )

    def __init__(
        self,
        post: Callable[[EngineEvent], None],
        *,
        heartbeat: float = 5.0,
        silence: float = 60.0,
        orphan_timeout: float = 1800.0,
        checks: GpuChecks | None = None,
        named: bool = False,
    ) -> None:
        self._checks, self._named = checks, named
        self._owner = owner(os.getpid())
        end_orphans()
        super().__init__(post, heartbeat=heartbeat, silence=silence, orphan_timeout=orphan_timeout)

    def _spawn(self, spec: SlotSpec) -> tuple[Child, dict[str, Any]]:
        command, key = [sys.executable, "-S", "-E", str(_LAUNCHER)], secrets.token_hex(8)
        create_log(log := Path(spec.log))
        process = LocalProcess(spec.slot, command)
        return Child(spec.slot, process, log=log, key=key), {
            "log": spec.log,
            "marker_key": key,
            "python": spec.python,
            "package": str(_PACKAGE),
            "parent": os.getpid(),
            "owner": self._owner,
            **gpu_checks(spec, self._checks, named=self._named),
        }

    def _request_fields(self, child: Child, request: AttemptRequest) -> dict[str, Any]:
        scratch = f"{request.log}.scratch"
        return {"cell": request.cell.to_dict(), "log": request.log, "scratch": scratch}

    def _check_silent(self, child: Child) -> None:
        """A supervisor that was stopped ends nothing any more."""
        if isinstance(child.process, LocalProcess) and is_stopped(child.process.pid):
            child.note_cause("stuck stopped by a signal (SIGSTOP), its supervisor too")
            child.kill()
