"""Whether a machine of which there is a report can run a cell, and in how many of its slots."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.benchmarks.base import loads_model
from benchfleet.campaign.base import Campaign
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import gigabytes
from benchfleet.domain.matrix import ModelEntry
from benchfleet.domain.resource import DeviceKind
from benchfleet.machines.devices import DEFAULT_CPU_SLOTS
from benchfleet.machines.memory import Estimate, memory_for_weights
from benchfleet.machines.probe.report import Capability
from benchfleet.planner.forecast import MemoryForecast

_KINDS: tuple[DeviceKind, ...] = ("cpu", "gpu")


class Fitting:
    """Holds cells against machines: their rules, GPUs and memory."""

    def __init__(self, campaign: Campaign, machines: Sequence[Capability]) -> None:
        self._campaign, self._machines = campaign, machines
        self._forecasts = {kind: MemoryForecast(kind) for kind in _KINDS}
        self.unknown: set[str] = set()  # models of unknown size

    def of(self, entry: ModelEntry, cell: Cell, machine: Capability, *, variant: bool) -> int | str:
        """How many slots of the machine it takes there, or why it cannot be run there."""
        if why := self.barred(cell, machine, variant=variant):
            return why
        need, slots = cell.need, slots_of(machine)
        if need.gpus > len(machine.gpus):
            return f"needs {need.gpus} GPUs, it has {len(machine.gpus)}"
        needed = self._memory(entry, cell, "gpu" if machine.gpus else "cpu")
        if machine.gpus:
            fitting = [gpu for gpu in machine.gpus if gpu.memory >= max(needed, need.vram)]
            gpus_needed = max(1, need.gpus)
            if len(fitting) >= gpus_needed:
                return gpus_needed
            memory = max(gpu.memory for gpu in machine.gpus)
            return f"takes {gigabytes(max(needed, need.vram))}, its GPUs have {gigabytes(memory)}"
        memory = int(machine.number("ram_available"))
        if needed > memory:
            return f"takes {gigabytes(needed)}, it has {gigabytes(memory)} free"
        at_once = min(slots, memory // needed) if needed else slots
        return -(-slots // max(1, at_once))

    def barred(self, cell: Cell, machine: Capability, *, variant: bool = False) -> str:
        """Why the campaign's rules forbid the machine to run it; ``""`` if they do not."""
        rules, name = self._campaign.eligibility, cell.model.name
        return rules.barred(machine.facts, phase=cell.phase, model=name, variant=variant)

    def _memory(self, entry: ModelEntry, cell: Cell, kind: DeviceKind) -> int:
        """Bytes that it takes; 0 where nothing tells."""
        estimate = self._forecasts[kind].of(cell)
        if isinstance(estimate, Estimate):
            return -(-estimate.total // max(1, cell.need.gpus))
        if not loads_model(cell):
            return 0
        if weights := self.weights(entry, cell):
            return memory_for_weights(-(-weights // max(1, cell.need.gpus)), kind)
        self.unknown.add(cell.model.name)
        return 0

    def weights(self, entry: ModelEntry, cell: Cell) -> int:
        """Bytes of the model; 0 where nothing tells."""
        if not loads_model(cell):
            return 0
        if entry.size:
            return entry.size
        estimate = self._forecasts["gpu"].of(cell)
        if isinstance(estimate, Estimate):
            return estimate.weights
        names = {cell.model.source, cell.model.source.partition("@")[0]}
        sizes = [m.models[name] for m in self._machines for name in names if name in m.models]
        return max(sizes, default=0)


def slots_of(machine: Capability) -> int:
    """As a run there has them where nothing else is asked for."""
    return len(machine.gpus) or min(DEFAULT_CPU_SLOTS, max(1, int(machine.number("cores"))))
