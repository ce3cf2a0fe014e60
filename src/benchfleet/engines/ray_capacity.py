"""What a run may use of a Ray node, and the share of it that a slot asks Ray for."""

from __future__ import annotations

from dataclasses import replace

from benchfleet.domain.host import Host
from benchfleet.domain.humanize import sized
from benchfleet.domain.resource import Device
from benchfleet.engines.base import HostReady, SlotSpec
from benchfleet.engines.plugin import Examine
from benchfleet.engines.ray_resources import Node, Share
from benchfleet.errors import DeviceError


def node_capacity(
    node: Node, facts: str, *, like: Host, examine: Examine, memory: int = 0
) -> HostReady:
    """The node's GPUs that Ray has, or else a slot for each two of its CPUs; `like` may say other
    numbers. There are no more slots than Ray has `memory` for. Raises BenchfleetError if it cannot
    be used."""
    has_gpus = node.gpus > 0
    cpu_slots = like.cpu_slots or max(1, int(node.cpus) // 2)
    host = replace(like, name=node.name, cpu_slots=None if has_gpus else cpu_slots)
    ready = examine(host, facts)
    devices = ready.devices
    if has_gpus:
        devices = tuple(one for one in devices if one.kind == "gpu")[: node.gpus]
        if len(devices) < node.gpus:  # Ray knows of more than the driver shows
            devices = tuple(
                Device(kind="gpu", index=index, name=node.accelerator, host=node.name)
                for index in range(node.gpus)
            )
    slots = len(devices) * (like.slots_per_gpu if has_gpus else 1)
    if memory:
        slots = min(slots, node.memory // memory)
        devices = devices if has_gpus else devices[:slots]
    if not slots:
        raise DeviceError(
            f"Ray has {sized(node.memory)} of memory there, less than the {sized(memory)} of a "
            "slot: set a smaller 'memory'"
        )
    threads = max(1, int(node.cpus) // slots)
    return replace(ready, devices=devices, slots=slots, begin=0, threads=threads, spare=())


def slot_share(spec: SlotSpec, node: Node, *, like: Host, memory: int = 0) -> Share:
    """What a slot's actor asks for, at most its share of the node."""
    if spec.devices[0].kind == "endpoint":
        return Share()
    cpus, gpus = float(spec.threads), sum(one.kind == "gpu" for one in spec.devices)
    if not gpus:
        return Share(cpus=min(cpus, node.cpus), memory=memory)
    share = gpus / like.slots_per_gpu if like.slots_per_gpu > 1 else float(gpus)
    cpus = min(cpus, node.cpus * share / max(1, node.gpus))
    return Share(cpus=cpus, gpus=share, memory=memory)
