"""The hardware axis: names of GPUs, and machines that have them."""

from __future__ import annotations

import pytest

from benchfleet.domain.hardware import Hardware, MachineHardware, is_gpu
from benchfleet.domain.resource import Device, hardware_of


@pytest.mark.parametrize(
    ("wanted", "name", "memory"),
    [
        ("RTX 4090", "NVIDIA GeForce RTX 4090", 0),
        ("rtx_4090", "RTX 4090", 0),
        ("A100 80GB", "NVIDIA A100-SXM4-80GB", 0),
        ("A100 80GB", "A100 SXM4", 81_920 << 20),
        ("A100 80GB", "A100 PCIE", 81_920 << 20),
        ("H200 NVL", "NVIDIA H200 NVL", 0),
        ("H100", "NVIDIA H100 80GB HBM3", 0),
        ("RTX 5060 Ti", "NVIDIA GeForce RTX 5060 Ti", 0),
        ("A100 40 GB", "NVIDIA A100-PCIE-40GB", 0),
    ],
)
def test_a_gpu_is_known_by_what_its_driver_or_provider_calls_it(
    wanted: str, name: str, memory: int
) -> None:
    assert is_gpu(wanted, name, memory)


@pytest.mark.parametrize(
    ("wanted", "name", "memory"),
    [
        ("RTX 4090", "NVIDIA GeForce RTX 4090 D", 0),
        ("RTX 4090", "NVIDIA GeForce RTX 4090 Laptop GPU", 0),
        ("RTX 5060", "NVIDIA GeForce RTX 5060 Ti", 0),
        ("RTX 6000", "NVIDIA RTX 6000 Ada Generation", 0),
        ("A100 80GB", "NVIDIA A100-SXM4-40GB", 40_960 << 20),
        ("A100 80GB", "A100 SXM4", 0),  # nobody says how much memory it has
        ("H200 NVL", "NVIDIA H200", 0),
        ("A100", "NVIDIA A10", 0),
        ("", "NVIDIA A10", 0),
    ],
)
def test_another_gpu_of_a_similar_name_is_refused(wanted: str, name: str, memory: int) -> None:
    assert not is_gpu(wanted, name, memory)


def test_a_machine_needs_as_many_gpus_and_the_provider_that_is_named() -> None:
    device = Device(kind="gpu", index=0, name="NVIDIA GeForce RTX 4090", memory=24 << 30)
    local = hardware_of([device])
    rented = MachineHardware(gpus=("RTX 4090",), provider="vast")
    here = Hardware(name="here", gpu="RTX 4090")
    two = Hardware(name="two", gpu="RTX 4090", gpus=2)
    at_vast = Hardware(name="vast", gpu="RTX 4090", provider="vast")
    own = Hardware(name="own", gpu="RTX 4090", provider="local")
    assert here.unmet(local) == here.unmet(rented) == ""
    assert "not 2 × RTX 4090" in two.unmet(local)
    assert at_vast.unmet(local)
    assert not at_vast.unmet(rented)
    assert own.unmet(rented)
    assert not own.unmet(local)
    assert "no GPU" in here.unmet(hardware_of([Device(kind="cpu", index=0)]))


def test_the_identity_has_no_name_and_no_spelling() -> None:
    one = Hardware(name="a", gpu="RTX 4090", provider="vast")
    other = Hardware(name="b", gpu="nvidia geforce rtx_4090", provider="vast")
    assert one.identity() == other.identity()
    assert one.identity() != Hardware(name="a", gpu="RTX 4090").identity()
