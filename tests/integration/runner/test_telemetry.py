"""What slots measure ends up in results, failures and the campaign's history."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from benchfleet.domain.resource import Device
from benchfleet.domain.telemetry import GpuReading, Reading
from benchfleet.domain.usage import Price, Usage
from benchfleet.engines.base import (
    AttemptRequest,
    HostReady,
    Measured,
    Recorded,
    SlotEvent,
    SlotId,
    SlotLost,
    Started,
    Stopped,
    Warned,
)
from benchfleet.runner.events import Interrupted
from benchfleet.runner.resources.shapes import Pool
from stage import CPU, GPUS, Stage, cells, good

ONE = Pool(devices=CPU.devices[:1], slots=1, price=Price(amount=3.6, currency="EUR"))
GPU = Pool(devices=GPUS.devices[:1], slots=2, price=Price(amount=7.2, currency="$", per_gpu=True))


def reading(at: float, *, power: float = 200.0) -> Reading:
    gpu = GpuReading(index=0, memory=5, total=8, power=power)
    return Reading(at=at, cpu=at, ram=1000 + int(at), gpus=(gpu,))


def measured(
    slot: SlotId, request: AttemptRequest, seconds: int = 10
) -> list[tuple[float, SlotEvent]]:
    """Readings every second."""
    return [
        (at, Measured(slot=slot, attempt=request.attempt, reading=reading(at)))
        for at in range(seconds + 1)
    ]


def watched(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
    return [*measured(slot, request), *good(slot, request)]


def sealed(stage: Stage) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in stage.folder.rglob("cell.json")]


def used(stage: Stage) -> list[dict[str, Any]]:
    return [event.data["usage"] for event in stage.ledger.events() if event.kind == "used"]


def test_a_result_tells_what_was_measured_and_what_it_cost(stage: Stage) -> None:
    stage.engine.script = watched
    stage.run(cells(1), ONE)
    (cell,) = sealed(stage)
    assert cell["telemetry"]["ram_bytes"] == {"mean": 1005, "peak": 1010}
    assert cell["telemetry"]["energy"]["joules"] == 2000
    assert cell["usage"] == {
        "seconds": 10, "joules": 2000, "cost": 0.01, "currency": "EUR", "ram": 1010,
        "gpu_memory": 5,
    }  # fmt: skip
    (record,) = stage.ledger.cells()
    assert record.outcome is not None
    assert record.outcome.usage == Usage.from_dict(cell["usage"])
    assert "telemetry" not in json.dumps(cell["cell"])  # no part of its identity
    (file,) = stage.folder.rglob("telemetry.jsonl")
    assert [json.loads(line)["at"] for line in file.read_text().splitlines()] == list(range(11))
    assert cell["files"]["telemetry.jsonl"]


def test_a_short_cell_has_a_summary_and_no_file(stage: Stage) -> None:
    stage.engine.script = lambda slot, request: [*measured(slot, request, 5), *good(slot, request)]
    stage.run(cells(1), ONE)
    assert sealed(stage)[0]["telemetry"]["readings"] == 6
    assert not list(stage.folder.rglob("telemetry.jsonl"))


def test_a_cell_that_nobody_measured_says_nothing_of_it(stage: Stage) -> None:
    stage.run(cells(1), CPU)
    (cell,) = sealed(stage)
    assert cell["telemetry"] == {}
    assert cell["usage"] == {"seconds": 10}


def test_a_host_is_paid_for_at_its_own_price(stage: Stage) -> None:
    stage.engine.far = ("lab1",)
    price = Price(amount=7.2, currency="EUR")
    devices = tuple(Device(kind="cpu", index=index, host="lab1") for index in range(2))
    ready = HostReady(host="lab1", devices=devices, slots=2, threads=1, price=price)
    stage.inbox.post(ready, after=5)
    stage.run(cells(1), Pool(devices=(), slots=0))
    (cell,) = sealed(stage)
    assert (cell["usage"]["cost"], cell["usage"]["currency"]) == (0.01, "EUR")


def test_slots_that_share_a_gpu_share_its_energy_and_its_price(stage: Stage) -> None:
    stage.engine.script = watched
    stage.run(cells(2), GPU)
    for cell in sealed(stage):
        assert cell["telemetry"]["energy"]["gpu_joules"] == 2000
        assert cell["usage"]["joules"] <= 1100
        assert cell["usage"]["gpus"] == 0.5
        assert cell["usage"]["cost"] == 0.01


def test_a_slot_that_dies_leaves_what_was_measured_until_then(stage: Stage) -> None:
    def dies_first(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.requests) == 1:
            stage.engine.specs.pop(slot)
            return [*measured(slot, request, 4), (5, SlotLost(slot=slot, reason="killed"))]
        return watched(slot, request)

    stage.engine.script = dies_first
    stage.run(cells(1), ONE)
    (failure,) = stage.folder.rglob("failure.json")
    output = json.loads(failure.read_text())
    assert output["telemetry"]["ram_bytes"]["peak"] == 1004
    first = next(event for event in stage.ledger.events() if event.kind == "finished")
    assert first.data["outcome"]["usage"]["seconds"] == 5


def test_what_an_attempt_without_outcome_used_is_kept_too(stage: Stage) -> None:
    def slow(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        return [
            (0, Started(slot=slot, attempt=request.attempt, stage="benchmark")),
            *measured(slot, request, 3),
        ]

    stage.engine.script = slow
    stage.inbox.post(Interrupted(signal="SIGINT"), after=20)
    stage.run(cells(1), ONE)
    (usage,) = used(stage)
    assert usage["seconds"] == pytest.approx(20.5)
    assert usage["cost"] == pytest.approx(0.0205)


def test_a_slot_that_was_replaced_before_it_began_is_accounted_for(stage: Stage) -> None:
    def hands_back(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.requests) == 1:
            why = "the cells before left 2.1 GiB behind in this slot"
            stage.engine.specs.pop(slot)
            return [
                (1, Stopped(slot=slot, attempt=request.attempt, reason=why, fit=False)),
                (2, SlotLost(slot=slot, reason="exit code 0", exit_code=0)),
            ]
        return good(slot, request)

    stage.engine.script = hands_back
    end = stage.run(cells(1), ONE)
    assert end.progress.states["success"] == 1
    assert len(stage.engine.opened) == 2
    assert "left 2.1 GiB behind" in stage.notices_of("cell_released")[0].message
    assert [usage["seconds"] for usage in used(stage)] == [1]
    (record,) = stage.ledger.cells()
    assert (record.attempt, record.tries) == (2, 1)


def test_being_measured_is_no_sign_that_a_cell_goes_on(stage: Stage) -> None:
    wanted = [replace(c, limits=replace(c.limits, stuck=30.0, tries=1)) for c in cells(1)]

    def silent(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        return [
            (0, Started(slot=slot, attempt=request.attempt, stage="benchmark")),
            *measured(slot, request, 100),
        ]

    stage.engine.script = silent
    stage.run(wanted, ONE)
    (record,) = stage.ledger.cells()
    assert record.outcome is not None
    assert record.outcome.reason is not None
    assert record.outcome.reason.kind == "stuck"


def test_a_warning_of_a_slot_is_printed_with_its_cell_and_kept_with_its_result(
    stage: Stage,
) -> None:
    def warns(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        output = Warned(slot=slot, attempt=request.attempt, message="RAM of the slot grows")
        return [*measured(slot, request, 2), (3, output), *good(slot, request)]

    stage.engine.script = warns
    stage.run(cells(1), ONE)
    (notice,) = stage.notices_of("warning")
    assert notice.cell
    assert notice.message.endswith("(cpu:0): RAM of the slot grows")
    assert sealed(stage)[0]["telemetry"]["warnings"] == ["RAM of the slot grows"]


def test_the_view_knows_memory_and_tokens_while_a_cell_runs(stage: Stage) -> None:
    seen = []

    def looking(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        script = list(good(slot, request))
        _, recorded = script[1]
        assert isinstance(recorded, Recorded)
        script[1] = (4.0, replace(recorded, tokens=(70, 200)))
        return [*measured(slot, request), *script]

    watch = stage.watch

    def watching(notice: Any, progress: Any) -> None:
        watch(notice, progress)
        for shown in progress.slots.values():
            if notice.kind == "cell_progress" and shown.done == 1:
                seen.append((shown.tokens_per_second(stage.clock()), shown.reading))

    stage.watch = watching  # type: ignore[method-assign]
    stage.engine.script = looking
    end = stage.run(cells(1), ONE)
    assert seen[0][0] == pytest.approx(50)
    assert seen[0][1].ram is not None
    assert end.progress.tokens == {"prompt": 70, "completion": 200}
    assert end.progress.used.attempts == 1
