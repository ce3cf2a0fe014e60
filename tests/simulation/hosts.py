"""Simulated hosts, and what slots on them do with each cell: drawn from the seed alone."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from benchfleet.domain.cell import Cell
from benchfleet.domain.conditions import Fact, parse_condition
from benchfleet.domain.eligibility import KINDS, Eligibility, Rule
from benchfleet.domain.failure import Failure, Kind
from benchfleet.domain.limits import Limits
from benchfleet.domain.part import AUTO_SPLIT, whole_of
from benchfleet.domain.placement import Placement, Reported
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    AttemptRequest,
    Done,
    Failed,
    FileSent,
    Progressed,
    Recorded,
    SlotEvent,
    SlotId,
    SlotLost,
    SlotSpec,
    Started,
    Stopped,
)
from benchfleet.testing.sample_cells import sample_cell

GB = 10**9
_A_FEW = 2  # attempts
_BUSY = 0.25  # of all fleets
Temper = Literal["even", "fails", "recovers", "hungry", "hangs", "crashes", "wrong", "hands back"]
_TEMPERS: Sequence[Temper] = (
    "fails", "recovers", "hungry", "hangs", "crashes", "wrong", "hands back",
)  # fmt: skip
_KINDS: Sequence[Kind] = ("user_error", "error", "timeout", "dataset_missing", "gpu_fault", "oom")


@dataclass(kw_only=True)
class SimulatedHost:
    """A machine: its devices, and how it is now."""

    name: str  # "" for the machine of the runner
    devices: tuple[Device, ...]
    slots: int
    starts_in: float = 2.0  # seconds until a slot says hello
    slowness: float = 1.0  # factor of every time
    here: bool = True  # it can be reached by anybody
    hopeless: bool = False  # it is away until somebody repairs it

    def set_reachable(self, reachable: bool) -> None:
        self.here = reachable


def make_hosts(count: int) -> list[SimulatedHost]:
    """The runner's own machine, and so many others."""
    found = [SimulatedHost(name="", devices=_devices("", 0), slots=2, starts_in=0.5)]
    for number in range(1, count + 1):
        name = f"host{number}"
        gpus = (2, 4, 0)[(number - 1) % 3]
        devices = _devices(name, gpus)
        slots = len(devices) * (2 if number % 2 else 1)
        found.append(SimulatedHost(name=name, devices=devices, slots=slots))
    return found


def _devices(host: str, gpus: int) -> tuple[Device, ...]:
    if not gpus:
        return tuple(Device(kind="cpu", index=index, host=host) for index in range(2))
    return tuple(
        Device(kind="gpu", index=index, memory=(8 + 8 * (index % 2)) * GB, host=host)
        for index in range(gpus)
    )


@dataclass(frozen=True, kw_only=True)
class Nature:
    """How a cell behaves in every slot."""

    samples: int
    load: float  # seconds
    each: float  # seconds a sample takes
    temper: Temper = "even"
    at: int = 0  # the sample where it shows its temper
    times: int = 0  # attempts that do
    kind: Kind = "error"


def draw_cells(
    seed: str, count: int, hosts: Sequence[SimulatedHost], *, faults: bool
) -> list[Cell]:
    """Cells that some host can take."""
    models = 1 if is_busy(seed) else 3
    most = max(sum(d.kind == "gpu" for d in host.devices) for host in hosts)
    cells = []
    for number in range(count):
        chance = random.Random(f"{seed} cell {number}")
        gpus = min(most, chance.choice((0, 0, 1, 1, 2)))
        cell = sample_cell(
            number,
            model=f"m{chance.randrange(models)}",
            gpus=gpus,
            vram=chance.choice((0, 4 * GB)) if gpus and models > 1 else 0,
            tries=chance.choice((3, 1000)),
            priority=chance.choice((0, 0, 0, 5)),
            batch_size=chance.choice((1, 4)),
            python="envs/other" if chance.random() < 0.1 and models > 1 else "",
        )
        nature, stuck = _nature(seed, number, faults=faults), chance.choice((None, 40.0))
        limits = Limits(
            tries=3 if nature.times > _A_FEW else cell.limits.tries,  # it would never end else
            stuck=40.0 if nature.temper == "hangs" else stuck,
        )
        split = random.Random(f"{seed} split {number}").choice((1, 1, 1, AUTO_SPLIT, 2, 3))
        workload = replace(  # that may be split
            cell.workload,
            benchmark="mock_benchmark",
            called=cell.workload.benchmark,
            params={"rows": number},
        )
        cells.append(replace(cell, limits=limits, split=split, workload=workload))
    return cells


def draw_placing(
    seed: str, cells: Sequence[Cell], hosts: Sequence[SimulatedHost], *, plan: int
) -> Placement:
    """In half of all fleets reports keep models off hosts, never off all that can take their cells;
    and in half of all a plan, of which there may be several, gives most cells to some host."""
    chance = random.Random(f"{seed} placing")
    ruled, is_planned = chance.random() < 0.5, chance.random() < 0.5
    rules: list[Rule] = []
    for model in sorted({cell.model.name for cell in cells}) if ruled else ():
        mine = [cell for cell in cells if cell.model.name == model]
        fit = [h.name for h in hosts if h.name and all(can_take(h, cell) for cell in mine)]
        if fit:
            kept = {chance.choice(fit), chance.choice([h.name for h in hosts])}
            off = "".join(f" and hostname != '{h.name}'" for h in hosts if h.name not in kept)
            rules.append(
                Rule(name=model, when=parse_condition(f"cores > 0{off}", KINDS), models=(model,))
            )
    facts: dict[str, Fact] = {name: 1 if kind != "text" else "" for name, kind in KINDS.items()}
    drawn = random.Random(f"{seed} plan {plan}")
    names = [host.name for host in hosts]
    planned_hosts = {
        str(cell.fingerprint): drawn.choice(names) for cell in cells if drawn.random() < 0.8
    }
    return Placement(
        rules=Eligibility(rules=tuple(rules), tiers=()),
        machines={
            h.name: Reported(facts={**facts, "hostname": h.name}, by=f"report of {h.name}")
            for h in hosts
        },
        planned_hosts=planned_hosts if is_planned and plan else {},
    )


def can_take(host: SimulatedHost, cell: Cell) -> bool:
    """Whether its devices have what the cell needs."""
    fit = [d for d in host.devices if d.kind == "gpu" and d.memory >= cell.need.vram]
    return not cell.need.gpus or len(fit) >= cell.need.gpus


def _nature(seed: str, number: int, *, faults: bool) -> Nature:
    chance = random.Random(f"{seed} nature {number}")
    samples = chance.choice((0, 1, 3, 6, 12))
    temper: Temper = chance.choice(_TEMPERS) if faults and chance.random() < 0.4 else "even"
    always = temper not in ("even", "hands back") and chance.random() < 0.3
    return Nature(
        samples=samples,
        load=chance.uniform(1.0, 10.0),
        each=chance.choice((0.5, 2.0, 6.0)),
        temper=temper,
        at=chance.randint(0, samples),
        times=10**6 if always else chance.randint(1, _A_FEW),
        kind=chance.choice(_KINDS),
    )


def draw_natures(seed: str, cells: Sequence[Cell], *, faults: bool) -> dict[str, Nature]:
    """How each cell behaves, by fingerprint."""
    quick = 0.02 if is_busy(seed) else 1.0
    natures = {str(c.fingerprint): _nature(seed, n, faults=faults) for n, c in enumerate(cells)}
    return {
        fingerprint: replace(nature, load=quick * nature.load, each=quick * nature.each)
        for fingerprint, nature in natures.items()
    }


def is_busy(seed: str) -> bool:
    """Whether the cells of this fleet take little time and are alike in what they need: what ends
    at once is finished and claimed together. A quarter of all fleets is."""
    return random.Random(f"{seed} busy").random() < _BUSY


def sample_of(fingerprint: str, index: int) -> dict[str, Any]:
    """The one right record of a sample."""
    answer = f"{fingerprint[:8]} says {index}"
    return {"index": index, "id": f"s{index}", "columns": {}, "predicted_answer": answer}


@dataclass(kw_only=True)
class RunState:
    """What a slot does with one order: events, and the seconds before each."""

    slot: SlotId
    spec: SlotSpec
    request: AttemptRequest
    nature: Nature
    loaded: bool  # the model is in its memory already
    asked_to_stop: bool = False

    def events(self) -> Iterator[tuple[float, SlotEvent]]:
        """All that comes of it, the last event too."""
        slot, key, nature = self.slot, self.request.attempt, self.nature
        cell, attempt = self.request.cell, int(key.split("/")[1].split("-")[0])
        part, fingerprint = cell.part, whole_of(cell).fingerprint
        indices = range(nature.samples)
        if part is not None:
            indices = part.positions(indices, nature.samples)
        shows = nature.temper if attempt <= nature.times else "even"
        yield 0.1, Started(slot=slot, attempt=key, stage="load")
        yield (
            0.0 if self.loaded else nature.load,
            Started(slot=slot, attempt=key, stage="benchmark"),
        )
        known = {json.loads(line)["index"] for line in self.request.recorded.splitlines()}
        if self.request.rescore and not known.issuperset(indices):
            failure = Failure(stage="collect", kind="bad_result", message="a sample is missing")
            yield 0.1, Failed(slot=slot, attempt=key, failure=failure)
            return
        for index in (*indices, indices.stop):
            if index == nature.at and (ending := self._ending(shows)) is not None:
                yield from ending
                return
            if self.asked_to_stop:
                yield 0.1, Stopped(slot=slot, attempt=key, reason="it was asked to stop")
                return
            if index == indices.stop or index in known:
                continue
            known.add(index)
            line = json.dumps(sample_of(fingerprint, index)).encode() + b"\n"
            yield (
                nature.each,
                Recorded(
                    slot=slot, attempt=key, lines=line, done=len(known), total=len(indices),
                    tokens=(100, 10),
                ),
            )  # fmt: skip
        yield 0.1, FileSent(slot=slot, attempt=key, name="notes/of-it.txt", data=b"as it was\n")
        score = {"overall": float("nan") if shows == "wrong" else 1.0, "tasks": {}, "summary": {}}
        score["per_sample"] = [] if part else [1.0] * nature.samples
        seconds = {"load": nature.load, "benchmark": nature.each * len(indices)}
        yield 0.1, Done(slot=slot, attempt=key, score=score, seconds=seconds)

    def _ending(self, temper: Temper) -> Iterator[tuple[float, SlotEvent]] | None:
        slot, key, nature = self.slot, self.request.attempt, self.nature
        kind = nature.kind
        if temper == "hungry":
            if self.request.batch_size <= 1 and not self.spec.neighbours:
                return None
            kind = "oom"
        elif temper == "hangs":
            return iter([(1e9, Progressed(slot=slot, attempt=key, done=0, total=0))])
        elif temper == "crashes":
            return iter([(0.5, SlotLost(slot=slot, reason="killed by signal 11", exit_code=-11))])
        elif temper == "hands back":
            return iter([(0.5, Stopped(slot=slot, attempt=key, reason="no room", fit=False))])
        elif temper not in ("fails", "recovers"):
            return None
        failure = Failure(
            stage="benchmark",
            kind=kind,
            message="drawn from the seed",
            retryable=kind not in ("user_error", "dataset_missing"),
        )
        fit = kind not in ("gpu_fault",)
        return iter([(0.5, Failed(slot=slot, attempt=key, failure=failure, fit=fit))])
