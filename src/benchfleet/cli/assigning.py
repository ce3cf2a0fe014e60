"""A campaign's cells shared out over machines that are known by their reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchfleet import registry
from benchfleet.campaign.base import Campaign
from benchfleet.cli.estimates import Estimates
from benchfleet.cli.forecast import MemoryForecast, gigabytes
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.matrix import ModelEntry
from benchfleet.domain.resource import DeviceKind
from benchfleet.machines.assign import solver
from benchfleet.machines.assign.problem import Group, Piece, Problem, Solution, Way
from benchfleet.machines.devices import CPU_SLOTS
from benchfleet.machines.memory import Estimate, taken_by_weights
from benchfleet.machines.probe.report import Capability

_KINDS: tuple[DeviceKind, ...] = ("cpu", "gpu")
BANDWIDTH = 12.5e6  # bytes a second of a link that tells no speed: 100 Mbit/s


@dataclass(frozen=True, kw_only=True)
class Given:
    """A cell on a machine, and when the plan has it run there."""

    cell: Cell  # in the form that is run there
    declared: Cell  # as the campaign has it; the same where it is run in full
    host: str
    slots: tuple[int, ...]
    begin: float
    end: float


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The whole plan."""

    given: Sequence[Given]
    setups: Sequence[Piece]  # loading, with the time of the plan
    nowhere: Mapping[str, str]  # cells, by id, that fit no machine, each with the reason
    done: int
    running: int
    slots: Mapping[str, int]  # by machine
    makespan: float
    bound: float
    phases: Mapping[str, tuple[float, float]]  # when each begins and ends; "" without phases
    times: Mapping[str, int]  # how many cells' times are known by what
    by: str  # what found it
    notes: Sequence[str] = ()

    @property
    def gap(self) -> float:
        return self.makespan / self.bound - 1 if self.bound else 0.0

    @property
    def sequential(self) -> float:
        """Seconds of all that is done, one after the other, each where the plan has it."""
        return sum(g.end - g.begin for g in self.given) + sum(p.end - p.begin for p in self.setups)


@dataclass
class _Lot:
    """Cells that are alike to the planner."""

    cells: list[tuple[Cell, list[Cell]]] = field(default_factory=list)  # as declared, and its forms


class Assigner:
    """Builds the planner's problems, phase by phase, and reads its plans."""

    def __init__(
        self,
        campaign: Campaign,
        machines: Sequence[Capability],
        records: Sequence[CellRecord],
        *,
        bandwidth: float = 0.0,
        needed: bool = False,
    ) -> None:
        self._campaign, self._machines = campaign, machines
        self._bandwidth, self._needed = bandwidth, needed
        self._records = {record.fingerprint: record for record in records}
        self._forecasts = {kind: MemoryForecast(kind) for kind in _KINDS}
        known = [
            (cell, record)
            for declared in campaign.matrix.expand()
            for _, cell in campaign.matrix.forms(declared)
            if (record := self._records.get(cell.fingerprint)) and record.state == "success"
        ]
        self._estimates = Estimates(machines, known)
        self._by: dict[tuple[str, str], str] = {}  # cell and machine: what its time is known by
        self._unknown: set[str] = set()  # models of unknown size

    def plan(self, cells: Sequence[Cell], *, seed: int = 0, limit: float = 1.0) -> Assignment:
        """Share out what is neither done nor under way."""
        states = Counter(map(self._state, cells))
        left = [cell for cell in cells if self._state(cell) == "left"]
        names = [phase.name for phase in self._campaign.phases]
        order = [*sorted({cell.phase for cell in left} - set(names)), *names]
        given: list[Given] = []
        setups: list[Piece] = []
        nowhere: dict[str, str] = {}
        phases: dict[str, tuple[float, float]] = {}
        begin = bound = 0.0
        found_by: dict[str, None] = {}
        here: set[tuple[str, str]] = set()  # models that earlier phases brought to a machine
        for name in order:
            mine = [cell for cell in left if cell.phase == name]
            lots, problem = self._problem(mine, here, nowhere)
            if not problem.groups:
                continue
            solution = solver.solved(problem, seed=seed, limit=limit)
            found_by[solution.by] = None
            given += _given(lots, problem, solution, begin)
            for piece in solution.pieces:
                here.add((piece.host, piece.model))
                if piece.group is None:
                    setups.append(_later(piece, begin))
            phases[name] = (begin, begin + solution.makespan)
            begin, bound = begin + solution.makespan, bound + solution.bound
        return Assignment(
            given=sorted(given, key=lambda one: (one.host, one.begin, one.slots, one.cell.id)),
            setups=setups,
            nowhere=nowhere,
            done=states["done"],
            running=states["running"],
            slots={machine.hostname: _slots(machine) for machine in self._machines},
            makespan=begin,
            bound=bound,
            phases=phases,
            times=Counter(self._by[one.cell.fingerprint, one.host] for one in given),
            by=" and ".join(found_by) or "nothing to plan",
            notes=list(self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        if not solver.available():
            yield "OR-Tools is not installed: found by search (pip install 'benchfleet[plan]')"
        if self._unknown:
            names = ", ".join(sorted(self._unknown))
            yield f"nothing tells how large these are, so they fit anywhere: {names}; add 'size:'"

    def _state(self, cell: Cell) -> str:
        states = {
            record.state
            for _, form in self._campaign.matrix.forms(cell)
            if (record := self._records.get(form.fingerprint))
        }
        if states & {"success", "cancelled", "skipped"}:
            return "done"
        return "running" if "running" in states else "left"

    def _problem(
        self, cells: Sequence[Cell], here: set[tuple[str, str]], nowhere: dict[str, str]
    ) -> tuple[list[_Lot], Problem]:
        lots: dict[tuple[object, ...], _Lot] = {}
        groups: dict[tuple[object, ...], Group] = {}
        loads: dict[tuple[str, str], float] = {}
        transfers: dict[tuple[str, str], float] = {}
        slots = {machine.hostname: _slots(machine) for machine in self._machines}
        for cell in cells:
            forms = self._campaign.matrix.forms(cell)
            ways: dict[str, Way] = {}
            reasons: dict[str, str] = {}
            for machine in self._machines:
                found = self._way(forms, machine)
                if isinstance(found, str):
                    reasons[machine.hostname] = found
                    continue
                ways[machine.hostname] = found
                entry, form = forms[found.form]
                key = (machine.hostname, found.model)
                if found.model and key not in loads:
                    weights = self._weights(entry, form)
                    loads[key] = self._estimates.load(form.model.name, machine, weights=weights)
                    if key not in here and not _lies_there(form, machine):
                        transfers[key] = weights / self._rate(machine)
            if self._needed and any(way.form == 0 for way in ways.values()):
                ways = {host: way for host, way in ways.items() if way.form == 0}
            if not ways:
                nowhere[cell.id] = _in_one(reasons)
                continue
            block = f"{cell.model.name}/{cell.workload.label}"
            key2 = (block, tuple(sorted((h, round(w.seconds, 3), w.form) for h, w in ways.items())))
            lot = lots.setdefault(key2, _Lot())
            lot.cells.append((cell, [form for _, form in forms]))
            groups[key2] = Group(count=len(lot.cells), ways=ways, block=block)
        used = {host for group in groups.values() for host in group.ways}
        problem = Problem(
            slots={host: count for host, count in slots.items() if host in used},
            groups=tuple(groups[key] for key in lots),
            loads=loads,
            transfers=transfers,
        )
        return list(lots.values()), problem

    def _way(self, forms: Sequence[tuple[ModelEntry, Cell]], machine: Capability) -> Way | str:
        """How the machine runs the cell: in the first form that fits; or why in none."""
        reasons = []
        for number, (entry, cell) in enumerate(forms):
            found = self._fit(entry, cell, machine, variant=number > 0)
            if isinstance(found, str):
                reasons.append(f"{cell.model.name}: {found}" if len(forms) > 1 else found)
                continue
            slots = _slots(machine)
            time = self._estimates.of(
                cell, machine, weights=self._weights(entry, cell), part=found / slots
            )
            self._by[cell.fingerprint, machine.hostname] = time.by
            model = cell.model.name if _opens_model(cell) else ""
            return Way(seconds=time.seconds, model=model, form=number, width=found)
        return "; ".join(reasons)

    def _fit(
        self, entry: ModelEntry, cell: Cell, machine: Capability, *, variant: bool
    ) -> int | str:
        """How many slots of the machine it takes there, or why it cannot be run there."""
        rules, name = self._campaign.eligibility, cell.model.name
        if why := rules.barred(machine.facts, phase=cell.phase, model=name, variant=variant):
            return why
        need, slots = cell.need, _slots(machine)
        if need.gpus > len(machine.gpus):
            return f"needs {need.gpus} GPUs, it has {len(machine.gpus)}"
        taken = self._memory(entry, cell, "gpu" if machine.gpus else "cpu")
        if machine.gpus:
            fitting = [gpu for gpu in machine.gpus if gpu.memory >= max(taken, need.vram)]
            wide = max(1, need.gpus)
            if len(fitting) >= wide:
                return wide
            room = max(gpu.memory for gpu in machine.gpus)
            return f"takes {gigabytes(max(taken, need.vram))}, its GPUs have {gigabytes(room)}"
        room = int(machine.number("ram_available"))
        if taken > room:
            return f"takes {gigabytes(taken)}, it has {gigabytes(room)} free"
        at_once = min(slots, room // taken) if taken else slots
        return -(-slots // max(1, at_once))

    def _memory(self, entry: ModelEntry, cell: Cell, kind: DeviceKind) -> int:
        """Bytes that it takes; 0 where nothing tells."""
        estimate = self._forecasts[kind].of(cell)
        if isinstance(estimate, Estimate):
            return -(-estimate.total // max(1, cell.need.gpus))
        if not _opens_model(cell):
            return 0
        if weights := self._weights(entry, cell):
            return taken_by_weights(-(-weights // max(1, cell.need.gpus)), kind)
        self._unknown.add(cell.model.name)
        return 0

    def _weights(self, entry: ModelEntry, cell: Cell) -> int:
        """Bytes of the model; 0 where nothing tells."""
        if not _opens_model(cell):
            return 0
        if entry.size:
            return entry.size
        estimate = self._forecasts["gpu"].of(cell)
        if isinstance(estimate, Estimate):
            return estimate.weights
        names = {cell.model.source, cell.model.source.partition("@")[0]}
        found = [m.models[name] for m in self._machines for name in names if name in m.models]
        return max(found, default=0)

    def _rate(self, machine: Capability) -> float:
        return self._bandwidth or machine.number("network") or BANDWIDTH


def _opens_model(cell: Cell) -> bool:
    return bool(
        getattr(registry.load("benchmarks", cell.workload.benchmark), "needs_model", True)
        and getattr(registry.load("models", cell.model.adapter), "opens", True)
    )


def _slots(machine: Capability) -> int:
    """As a run there has them where nothing else is asked for."""
    return len(machine.gpus) or min(CPU_SLOTS, max(1, int(machine.number("cores"))))


def _lies_there(cell: Cell, machine: Capability) -> bool:
    return not {cell.model.source, cell.model.source.partition("@")[0]}.isdisjoint(machine.models)


def _later(piece: Piece, begin: float) -> Piece:
    return Piece(
        host=piece.host,
        slots=piece.slots,
        begin=begin + piece.begin,
        end=begin + piece.end,
        model=piece.model,
    )


def _given(
    lots: Sequence[_Lot], problem: Problem, solution: Solution, begin: float
) -> Iterator[Given]:
    """Each cell once: those of a lot in the campaign's order, as the plan has room for them."""
    waiting = [iter(lot.cells) for lot in lots]
    for piece in sorted(solution.pieces, key=lambda one: (one.begin, one.host, one.slots)):
        if piece.group is None:
            continue
        declared, forms = next(waiting[piece.group])
        yield Given(
            cell=forms[problem.groups[piece.group].ways[piece.host].form],
            declared=declared,
            host=piece.host,
            slots=piece.slots,
            begin=begin + piece.begin,
            end=begin + piece.end,
        )


def _in_one(reasons: Mapping[str, str]) -> str:
    if len(set(reasons.values())) == 1:
        return next(iter(reasons.values()))
    return " | ".join(f"{host}: {why}" for host, why in reasons.items())
