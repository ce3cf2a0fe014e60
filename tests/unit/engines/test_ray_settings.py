"""The settings of a Ray cluster, and what they make of a node."""

from __future__ import annotations

from pathlib import Path

import pytest

import benchfleet
from benchfleet.domain.host import Host
from benchfleet.domain.resource import Device
from benchfleet.engines import ray_settings
from benchfleet.engines.base import HostReady, SlotId, SlotSpec
from benchfleet.engines.ray_capacity import node_capacity, slot_share
from benchfleet.engines.ray_cluster import RayCluster
from benchfleet.engines.ray_engine import RayEngine
from benchfleet.engines.ray_resources import Node, Share
from benchfleet.errors import BenchfleetError, DeviceError

GB = 10**9
LIKE = Host(name="cluster")


def capacity(node: Node, memory: int) -> HostReady:
    def examine(host: Host, facts: str) -> HostReady:
        devices = tuple(
            Device(kind="cpu", index=index, host=host.name) for index in range(host.cpu_slots or 0)
        )
        return HostReady(host=host.name, devices=devices, slots=len(devices), threads=1)

    return node_capacity(node, "", like=LIKE, examine=examine, memory=memory)


def node(**resources: float) -> Node:
    return Node(id="1", name="n1", resources=resources)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"memory": "16"}, "memory '16' is not a size; write 16GB"),
        ({"memory": 16}, "memory must be of type str, not 16"),
        ({"price": "free"}, "price 'free' is not a price"),
        ({"cpu_slots": 0}, "cpu_slots must be 1 or more, not 0"),
        ({"runtime_env": "x"}, "runtime_env must be of type dict"),
        ({"bootstrap": 1}, "bootstrap must be of type bool"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, object], reason: str) -> None:
    assert reason in RayEngine.settings_problem(settings)


def test_a_node_has_no_more_slots_than_ray_has_memory_for() -> None:
    large = node(CPU=16.0, memory=100.0 * GB)
    assert (capacity(large, 0).slots, capacity(large, 16 * GB).slots) == (8, 6)
    assert len(capacity(large, 16 * GB).devices) == 6
    with pytest.raises(DeviceError, match=r"100.0 GB of memory there, less than the 200.0 GB"):
        capacity(large, 200 * GB)


def test_a_slot_asks_ray_for_its_memory_and_a_place_at_a_server_asks_for_nothing() -> None:
    host = node(CPU=16.0, GPU=2.0)
    gpu = Device(kind="gpu", index=0, host="n1")
    spec = SlotSpec(slot=SlotId("1"), devices=(gpu,), threads=8, log="")
    expected = Share(cpus=8.0, gpus=1.0, memory=GB)
    assert slot_share(spec, host, like=LIKE, memory=GB) == expected
    assert expected.options == {"num_cpus": 8.0, "num_gpus": 1.0, "memory": GB}
    served = Device(kind="endpoint", index=0, name="server", host="n1")
    spec = SlotSpec(slot=SlotId("2"), devices=(served,), threads=1, log="")
    assert slot_share(spec, host, like=LIKE, memory=GB) == Share()


def test_gpus_that_no_driver_shows_have_the_type_that_ray_knows() -> None:
    host = node(**{"CPU": 16.0, "GPU": 2.0, "accelerator_type:H100": 1.0})
    devices = capacity(host, 0).devices
    assert [(one.kind, one.name) for one in devices] == [("gpu", "H100"), ("gpu", "H100")]


def test_a_slot_that_shares_a_gpu_asks_ray_for_its_part_of_gpu_and_cpus() -> None:
    gpu = Device(kind="gpu", index=0, host="n1")
    spec = SlotSpec(slot=SlotId("1"), devices=(gpu,), threads=8, log="")
    like = Host(name="cluster", slots_per_gpu=4)
    share = slot_share(spec, node(CPU=16.0, GPU=2.0), like=like)
    assert share == Share(cpus=2.0, gpus=0.25)


def test_bootstrap_sends_this_package_beside_what_the_user_has_ray_install() -> None:
    settings = {"bootstrap": True, "runtime_env": {"pip": ["torch"], "py_modules": ["mine"]}}
    environment = ray_settings.runtime_env(settings)
    package = str(Path(benchfleet.__file__).parent)
    assert environment["py_modules"] == ["mine", package]
    assert environment["pip"] == ["torch"]
    assert ray_settings.runtime_env({}) == {}


@pytest.mark.slow
def test_without_a_cluster_no_option_of_ray_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed")

    def init(**_: object) -> None:
        raise ConnectionError(
            "Could not find any running Ray instance. Please specify the one to connect to by "
            "setting `--address` flag or `RAY_ADDRESS` environment variable."
        )

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(BenchfleetError, match="any running Ray instance; start one with") as caught:
        RayCluster()
    assert " --address" not in str(caught.value)
    assert "--ray-address HOST:PORT" in str(caught.value)
