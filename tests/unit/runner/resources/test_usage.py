"""A slot's part of its machine, its price, and who computes beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchfleet.domain.resource import Device
from benchfleet.domain.usage import Price, Rate
from benchfleet.engines.base import SlotId, SlotSpec
from benchfleet.runner.progress import Running
from benchfleet.runner.resources.gpu_sharing import GpuSharing
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.usage import rate_of

GPUS = tuple(Device(kind="gpu", index=index) for index in range(4))
CPUS = tuple(Device(kind="cpu", index=index) for index in range(2))
HOST, EACH = Price(amount=4.0, currency="$"), Price(amount=1.5, currency="$", per_gpu=True)


@pytest.mark.parametrize(
    ("devices", "slots", "alone", "gpus", "host", "each"),
    [
        (GPUS[:1], 4, False, 1.0, 1.0, 1.5),
        (GPUS[:1], 8, False, 0.5, 0.5, 0.75),
        (GPUS[:1], 8, True, 1.0, 1.0, 1.5),
        (GPUS[:2], 8, False, 2.0, 2.0, 3.0),
        (GPUS[:1], 3, False, 1.0, 1.0, 1.5),
    ],
)
def test_a_slot_bears_its_part_of_the_price(
    devices: tuple[Device, ...],
    slots: int,
    alone: bool,
    gpus: float,
    host: float,
    each: float,
) -> None:
    pool = Pool(devices=GPUS, slots=slots)
    assert rate_of(devices, pool, alone=alone) == Rate(gpus=gpus)
    for price, cost in ((HOST, host), (EACH, each)):
        found = rate_of(devices, replace(pool, price=price), alone=alone)
        assert found == Rate(gpus=gpus, cost=cost, currency="$")


def test_on_the_cpu_a_machine_is_shared_by_its_slots_and_a_price_of_gpus_is_none() -> None:
    pool = Pool(devices=CPUS, slots=2, price=HOST)
    assert rate_of(CPUS[:1], pool) == Rate(cost=2.0, currency="$")
    assert rate_of(CPUS, pool, alone=True).cost == 4.0
    assert rate_of(CPUS[:1], replace(pool, price=EACH)).cost == 0.0
    assert rate_of(CPUS[:1], None) == Rate()


def slot(name: str, *devices: Device) -> Slot:
    spec = SlotSpec(slot=SlotId(name), devices=devices, threads=1, log="")
    return Slot(spec=spec, width=len(devices), display=Running(slot=name, devices=""))


def test_slots_at_work_on_the_same_gpu_are_counted() -> None:
    one = slot("1", GPUS[0])
    two = slot("2", GPUS[0])
    wide = slot("3", GPUS[0], GPUS[1])
    far = slot("4", replace(GPUS[0], host="lab"))
    sharing = GpuSharing()
    for each in (one, two, wide, far):
        each.attempt = object()  # type: ignore[assignment]
        sharing.began(each)
    assert [sharing.beside(each) for each in (one, two, wide, far)] == [2, 2, 2, 0]
    two.attempt = None
    assert sharing.beside(one) == 1
    sharing.began(one)
    wide.attempt = None
    assert sharing.beside(one) == 0
