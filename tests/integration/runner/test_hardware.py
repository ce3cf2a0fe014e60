"""Cells that name hardware, in virtual time: each runs on what it names, as hosts come and go."""

from __future__ import annotations

from dataclasses import replace

from benchfleet.domain.cell import Cell
from benchfleet.domain.hardware import Hardware, MachineHardware
from benchfleet.domain.resource import Device
from benchfleet.engines.base import HostAwaited, HostLost
from benchfleet.runner.resources.shapes import Pool
from stage import Stage, cells

from .fleets import NOWHERE, host_ready, ran

SMALL = Hardware(name="small", gpu="RTX 4090")
LARGE = Hardware(name="large", gpu="A100")
AT_VAST = Hardware(name="vast", gpu="A100", provider="vast")
HERE = Pool(devices=(Device(kind="gpu", index=0, name="NVIDIA GeForce RTX 4090"),), slots=1)


def naming(cell: Cell, *hardware: Hardware) -> Cell:
    return replace(cell, need=replace(cell.need, hardware=hardware))


def test_a_cell_waits_for_what_it_names_and_the_rest_is_run_meanwhile(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab1", gpus=1, model="NVIDIA A100-PCIE-40GB"), after=25)
    stage.inbox.post(host_ready("lab2", gpus=1, model="NVIDIA H100"), after=1)
    one, two, three, four = cells(4)
    chosen = [naming(one, LARGE), naming(two, SMALL), naming(three, SMALL, LARGE), four]
    end = stage.run(chosen, HERE)
    assert end.progress.states == {"success": 4}
    assert ran(stage) == {"": [two.id, three.id], "lab2": [four.id], "lab1": [one.id]}


def test_a_slot_that_is_idle_takes_no_cell_of_other_hardware(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab1", gpus=1, model="NVIDIA A100-PCIE-40GB"))
    stage.inbox.post(host_ready("lab2", gpus=1, model="NVIDIA GeForce RTX 4090"))
    every = cells(6)
    chosen = [naming(cell, SMALL if n < 5 else LARGE) for n, cell in enumerate(every)]
    end = stage.run(chosen, NOWHERE)
    assert end.progress.states == {"success": 6}
    assert ran(stage)["lab1"] == [every[5].id]


def test_what_no_machine_is_or_may_become_is_named(stage: Stage) -> None:
    one, two = cells(2)
    end = stage.run([naming(one, LARGE), naming(two, SMALL)], HERE)
    assert end.progress.states["success"] == 1
    ((cell, why),) = end.impossible
    assert cell == one
    assert "NVIDIA GeForce RTX 4090, not A100" in why


def test_hardware_of_a_provider_is_what_was_rented_there(stage: Stage) -> None:
    rented = MachineHardware(gpus=("A100 SXM4",), provider="vast")
    stage.engine.far = ("lab1", "a100", "a100-x")
    stage.inbox.post(host_ready("lab1", gpus=1, model="NVIDIA A100-SXM4-80GB"))
    stage.inbox.post(HostAwaited(host="a100", reason="it is rented", machines=(rented,)))
    stage.inbox.post(replace(host_ready("a100-x"), rented=rented), after=5)
    stage.inbox.post(HostLost(host="a100", reason="all are here", removed=True), after=6)
    one, two, three = cells(3)
    end = stage.run([naming(one, AT_VAST), naming(two, LARGE), naming(three, SMALL)], NOWHERE)
    assert end.progress.states["success"] == 2
    assert ran(stage)["a100-x"] == [one.id]
    ((cell, why),) = end.impossible
    assert cell == three
    assert "not RTX 4090" in why
