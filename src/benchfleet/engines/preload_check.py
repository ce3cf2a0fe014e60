"""An engine around another: each slot loads a model and asks it once before it is ready."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchfleet.domain.cell import Cell
from benchfleet.domain.resource import Device, Need
from benchfleet.engines.base import (
    AttemptEvent,
    AttemptRequest,
    Done,
    Engine,
    EngineEvent,
    Failed,
    Post,
    SlotId,
    SlotLost,
    SlotReady,
    SlotSpec,
    Stopped,
)

TRIAL_ATTEMPT = "trial"  # no ledger knows it
TRIAL_LIMIT_S = 1800.0  # a large model comes slowly from a slow disk


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """A trial under way."""

    devices: tuple[Device, ...]
    cell: Cell
    ready: SlotReady  # posted when it passes
    alarm: threading.Timer

    def why(self, stage: str, message: str) -> str:
        return f"model {self.cell.model.name} does not run there ({stage}: {message})"


class PreloadCheckEngine:
    """Tries the model of the first cell that a slot could run, once on each group of devices.

    The model stays in memory. A slot that fails its trial is lost before any cell begins;
    `SlotLost.trial` says why. `cells` are those that ask a model, in the order of the run. `inside`
    is made with `handle` as its post, and set before the first slot is opened.
    """

    def __init__(self, post: Post, cells: Sequence[Cell], *, limit: float = TRIAL_LIMIT_S) -> None:
        self._post, self._limit = post, limit
        self._cells = sorted(cells, key=lambda cell: -cell.priority)
        self._specs: dict[SlotId, SlotSpec] = {}
        self._trials: dict[SlotId, _Trial] = {}
        self._failed: dict[SlotId, str] = {}
        self._passed: set[tuple[Device, ...]] = set()
        self.inside: Engine

    def handle(self, event: EngineEvent) -> None:
        """An event of the engine inside; passed on, unless it is about a trial."""
        if isinstance(event, SlotReady):
            self._begin(event)
        elif isinstance(event, SlotLost):
            self._lose(event)
        elif not isinstance(event, AttemptEvent) or event.attempt != TRIAL_ATTEMPT:
            self._post(event)
        elif isinstance(event, Done):
            self._pass(event.slot)
        elif isinstance(event, Failed):
            failure = event.failure
            self._fail(event.slot, failure.stage, f"{failure.kind}: {failure.message}")
        elif isinstance(event, Stopped):
            self._fail(event.slot, "load", event.reason)

    def open(self, spec: SlotSpec) -> None:
        self._specs[spec.slot] = spec
        self.inside.open(spec)

    def run(self, slot: SlotId, request: AttemptRequest) -> None:
        self.inside.run(slot, request)

    def stop(self, slot: SlotId, attempt: str) -> None:
        self.inside.stop(slot, attempt)

    def close(self, slot: SlotId) -> None:
        if slot in self._trials:  # nobody waits for its end
            self.inside.kill(slot)
        else:
            self.inside.close(slot)

    def kill(self, slot: SlotId) -> None:
        self.inside.kill(slot)

    def shutdown(self) -> None:
        for slot in list(self._trials):
            self.inside.kill(slot)
        self.inside.shutdown()

    def slots(self) -> Sequence[SlotId]:
        return self.inside.slots()

    def expect(self, waiting: Mapping[Need, int]) -> None:
        self.inside.expect(waiting)

    def hosts(self) -> Sequence[str]:
        return self.inside.hosts()

    def _begin(self, ready: SlotReady) -> None:
        spec = self._specs[ready.slot]
        cell = next((cell for cell in self._cells if _suits(cell, spec)), None)
        if cell is None or spec.devices in self._passed:
            self._post(ready)
            return
        late = f"nothing came within {self._limit:g} s"
        alarm = threading.Timer(self._limit, self._fail, (ready.slot, "load", late))
        alarm.daemon = True
        trial = _Trial(devices=spec.devices, cell=cell, ready=ready, alarm=alarm)
        self._trials[ready.slot] = trial
        alarm.start()
        self.inside.run(
            ready.slot, AttemptRequest(attempt=TRIAL_ATTEMPT, cell=cell, log=spec.log, trial=True)
        )

    def _end(self, slot: SlotId) -> _Trial | None:
        trial = self._trials.pop(slot, None)
        if trial is not None:
            trial.alarm.cancel()
        return trial

    def _pass(self, slot: SlotId) -> None:
        if trial := self._end(slot):
            self._passed.add(trial.devices)
            self._post(replace(trial.ready, loaded=trial.cell.model.load_key))

    def _fail(self, slot: SlotId, stage: str, message: str) -> None:
        if trial := self._end(slot):
            self._failed[slot] = trial.why(stage, message)
            self.inside.kill(slot)

    def _lose(self, event: SlotLost) -> None:
        self._specs.pop(event.slot, None)
        trial, why = self._end(event.slot), self._failed.pop(event.slot, "")
        if trial and not event.expected and not event.host_lost:
            why = trial.why("load", f"its slot ended: {event.reason}")
        if why:
            event = replace(event, trial=why, reason=f"its trial failed: {why}", expected=False)
        self._post(event)


def _suits(cell: Cell, spec: SlotSpec) -> bool:
    gpus = [device for device in spec.devices if device.kind == "gpu"]
    first = spec.devices[0]
    if cell.need.endpoint != (first.name if first.kind == "endpoint" else ""):
        return False
    enough = len(gpus) >= cell.need.gpus and max(1, cell.need.gpus) == len(spec.devices)
    room = not cell.need.vram or min((gpu.memory for gpu in gpus), default=0) >= cell.need.vram
    return cell.model.python == spec.python and enough and room
