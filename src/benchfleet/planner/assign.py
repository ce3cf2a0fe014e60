"""A campaign's cells shared out over machines that are known by their reports."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Literal

from benchfleet.benchmarks.base import loads_model
from benchfleet.campaign.base import Campaign
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import examples
from benchfleet.domain.matrix import ModelEntry
from benchfleet.machines.probe.report import Capability
from benchfleet.planner.assignment import Assignment, PlannedCell
from benchfleet.planner.cell_groups import CellGroup, planned_cells
from benchfleet.planner.estimates import Estimates
from benchfleet.planner.fit import Fitting, slots_of
from benchfleet.planner.served_cells import plan_served_cells
from benchfleet.planner.solver import solver
from benchfleet.planner.solver.problem import Group, Piece, Problem, Way

Variants = Literal["faster", "needed", "mixed"]

_NONE: Mapping[str, str] = {}
_MIN_TIME_SHARE = 0.1  # of the planner's time, for each phase
DEFAULT_BANDWIDTH_BYTES_S = 12.5e6  # bytes a second of a link that tells no speed: 100 Mbit/s


class Assigner:
    """Builds the planner's problems, phase by phase, and reads its plans."""

    def __init__(
        self,
        campaign: Campaign,
        machines: Sequence[Capability],
        records: Sequence[CellRecord],
        *,
        forms: Mapping[str, str] = _NONE,
        holders: Mapping[str, str] = _NONE,
        bandwidth: float = 0.0,
        variants: Variants = "faster",
    ) -> None:
        """`forms` are those in which cells were given before; `holders` are the machines of the
        cells that run, both by fingerprint."""
        self._campaign, self._machines = campaign, machines
        self._bandwidth, self._variants = bandwidth, variants
        self._forms, self._holders = forms, holders
        self._records = {record.fingerprint: record for record in records}
        self._fitting = Fitting(campaign, machines)
        successes: list[tuple[Cell, CellRecord]] = []
        self._begun: dict[str, int] = {}  # blocks of which something was run, and in which form
        for declared in campaign.matrix.expand():
            for number, (_, cell) in enumerate(campaign.matrix.forms(declared)):
                record = self._records.get(cell.fingerprint)
                if record is None or record.state not in ("success", "running"):
                    continue
                self._begun.setdefault(_block(declared), number)
                if record.state == "success":
                    successes.append((cell, record))
        self._estimates = Estimates(machines, successes)
        self._by: dict[tuple[str, str], str] = {}  # cell and machine: what its time is known by

    def plan(
        self,
        everything: Sequence[Cell],
        *,
        seed: int = 0,
        effort: float = 1.0,
        seconds: float = solver.TIME_LIMIT_S,
    ) -> Assignment:
        """Assign the cells that are neither done nor running on one of the machines. Only a phase
        that requires another waits for it. Such stages share `effort` and `seconds` by their
        numbers of cells."""
        deadline = time.monotonic() + seconds
        running = [planned for cell in everything if (planned := self._running_on(cell))]
        running_ids = {one.declared.fingerprint for one in running}
        done = [cell for cell in everything if self._is_done(cell)]
        remaining = [cell for cell in everything if cell.fingerprint not in running_ids]
        remaining = [cell for cell in remaining if not self._is_done(cell)]
        stages = self._stages({cell.phase for cell in remaining})
        cells: list[PlannedCell] = []
        setups: list[Piece] = []
        unplaceable: dict[str, str] = {}
        phases: dict[str, tuple[float, float]] = {}
        begin = bound = 0.0
        found_by: dict[str, None] = {}
        transferred: set[tuple[str, str]] = set()  # models that earlier phases brought to a machine
        for number, names in enumerate(stages):
            members = [cell for cell in remaining if cell.phase in names]
            cells += self._served(members, begin, unplaceable)
            members = [cell for cell in members if not cell.need.endpoint]
            lots, problem = self._problem(members, transferred, unplaceable)
            if not problem.groups:
                continue
            rest = sum(cell.phase in chain(*stages[number:]) for cell in remaining)
            solution = solver.solve(
                problem,
                seed=seed,
                effort=effort * max(_MIN_TIME_SHARE, len(members) / len(remaining)),
                seconds=(deadline - time.monotonic()) * max(_MIN_TIME_SHARE, len(members) / rest),
            )
            found_by[solution.by] = None
            planned_now = list(planned_cells(lots, problem, solution, begin))
            cells += planned_now
            for piece in solution.pieces:
                transferred.add((piece.host, piece.model))
                if piece.group is None:
                    shifted = replace(piece, begin=begin + piece.begin, end=begin + piece.end)
                    setups.append(shifted)
            for name in names:
                if own := [one for one in planned_now if one.declared.phase == name]:
                    first = begin if len(names) == 1 else min(one.begin for one in own)
                    phases[name] = (first, max(one.end for one in own))
            begin, bound = begin + solution.makespan, bound + solution.bound
        return Assignment(
            cells=sorted(cells, key=lambda one: (one.host, one.begin, one.slots, one.cell.id)),
            setups=setups,
            unplaceable=unplaceable,
            done=len(done),
            running=running,
            failed=sum(self._failed(one.cell) for one in cells),
            slots={machine.hostname: slots_of(machine) for machine in self._machines},
            makespan=begin,
            bound=bound,
            phases=phases,
            times=Counter(self._by[one.cell.fingerprint, one.host] for one in cells),
            by=" and ".join(found_by) or "nothing to plan",
            notes=list(self._notes()),
        )

    def _stages(self, names: set[str]) -> list[list[str]]:
        """The phases, grouped: each group needs only phases of the groups before it."""
        level: dict[str, int] = {}
        for phase in self._campaign.phases:  # a phase requires earlier ones only
            level[phase.name] = 1 + max((level[name] for name in phase.requires), default=-1)
        stages: list[list[str]] = [[] for _ in range(1 + max(level.values(), default=0))]
        for name in [*sorted(names - level.keys()), *level]:
            stages[level.get(name, 0)].append(name)
        return stages

    def _notes(self) -> Iterator[str]:
        if not solver.available():
            yield "OR-Tools is not installed: found by search (pip install 'benchfleet[plan]')"
        if self._fitting.unknown:
            names = examples(sorted(self._fitting.unknown))
            yield f"models of unknown size are assumed to fit anywhere: {names}; add 'size:'"

    def _served(
        self, members: Sequence[Cell], begin: float, unplaceable: dict[str, str]
    ) -> Iterator[PlannedCell]:
        """Those that ask servers elsewhere."""
        served = [cell for cell in members if cell.need.endpoint]
        barred = self._fitting.barred
        for one in plan_served_cells(served, self._machines, barred=barred, begin=begin):
            if isinstance(one, PlannedCell):
                self._by[one.cell.fingerprint, one.host] = "server elsewhere"
                yield one
            else:
                unplaceable[one[0].id] = one[1]

    def _is_done(self, cell: Cell) -> bool:
        """Whether it has ended for good, in whatever form; as cancelled in the one that counts."""
        counts = self._forms.get(cell.fingerprint, cell.fingerprint)
        return any(
            record.state in ("success", "skipped")
            or (record.state == "cancelled" and record.fingerprint == counts)
            for _, form in self._campaign.matrix.forms(cell)
            if (record := self._records.get(form.fingerprint))
        )

    def _running_on(self, declared: Cell) -> PlannedCell | None:
        """Where the cell runs, where that is one of the machines."""
        hosts = {machine.hostname for machine in self._machines}
        for _, form in self._campaign.matrix.forms(declared):
            record = self._records.get(form.fingerprint)
            host = self._holders.get(form.fingerprint, "")
            if host in hosts and record is not None and record.state == "running":
                return PlannedCell(
                    cell=form, declared=declared, host=host, slots=(), begin=0.0, end=0.0
                )
        return None

    def _failed(self, cell: Cell) -> bool:
        record = self._records.get(cell.fingerprint)
        return record is not None and record.state in ("failed", "partial")

    def _problem(
        self, cells: Sequence[Cell], transferred: set[tuple[str, str]], unplaceable: dict[str, str]
    ) -> tuple[list[CellGroup], Problem]:
        lots: dict[tuple[object, ...], CellGroup] = {}
        groups: dict[tuple[object, ...], Group] = {}
        loads: dict[tuple[str, str], float] = {}
        transfers: dict[tuple[str, str], float] = {}
        slots = {machine.hostname: slots_of(machine) for machine in self._machines}
        for cell in cells:
            forms, block = self._campaign.matrix.forms(cell), _block(cell)
            begun = self._begun.get(block) if self._variants != "mixed" else None
            ways: dict[str, Way] = {}
            reasons: dict[str, str] = {}
            for machine in self._machines:
                way = self._way(forms, machine, only=begun)
                if isinstance(way, str):
                    reasons[machine.hostname] = way
                    continue
                ways[machine.hostname] = way
                entry, form = forms[way.form]
                key = (machine.hostname, way.model)
                if way.model and key not in loads:
                    weights = self._fitting.weights(entry, form)
                    loads[key] = self._estimates.load(form.model.name, machine, weights=weights)
                    if key not in transferred and not _has_model(form, machine):
                        transfers[key] = weights / self._rate(machine)
            if self._variants == "needed" and any(way.form == 0 for way in ways.values()):
                ways = {host: way for host, way in ways.items() if way.form == 0}
            if not ways:
                why = _joined_reasons(reasons)
                if begun is not None and len(forms) > 1:
                    name = forms[begun][1].model.name
                    why = f"{why} (others of its table ran with {name}; see --variants mixed)"
                unplaceable[cell.id] = why
                continue
            key2 = (block, tuple(sorted((h, round(w.seconds, 3), w.form) for h, w in ways.items())))
            lot = lots.setdefault(key2, CellGroup())
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

    def _way(
        self,
        forms: Sequence[tuple[ModelEntry, Cell]],
        machine: Capability,
        *,
        only: int | None,
    ) -> Way | str:
        """How the machine runs the cell: in the first form that fits, or in this one `only`; or
        why in none."""
        reasons = []
        for number, (entry, cell) in enumerate(forms):
            if only is not None and number != only:
                continue
            width = self._fitting.of(entry, cell, machine, variant=number > 0)
            if isinstance(width, str):
                reasons.append(f"{cell.model.name}: {width}" if len(forms) > 1 else width)
                continue
            slots = slots_of(machine)
            estimate = self._estimates.of(
                cell, machine, weights=self._fitting.weights(entry, cell), part=width / slots
            )
            self._by[cell.fingerprint, machine.hostname] = estimate.by
            model = cell.model.name if loads_model(cell) else ""
            return Way(seconds=estimate.seconds, model=model, form=number, width=width)
        return "; ".join(reasons)

    def _rate(self, machine: Capability) -> float:
        return self._bandwidth or machine.number("network") or DEFAULT_BANDWIDTH_BYTES_S


def _block(cell: Cell) -> str:
    """Cells that are compared with each other."""
    return f"{cell.model.name}/{cell.label}"


def _has_model(cell: Cell, machine: Capability) -> bool:
    return not {cell.model.source, cell.model.source.partition("@")[0]}.isdisjoint(machine.models)


def _joined_reasons(reasons: Mapping[str, str]) -> str:
    if len(set(reasons.values())) == 1:
        return next(iter(reasons.values()))
    return " | ".join(f"{host}: {why}" for host, why in reasons.items())
