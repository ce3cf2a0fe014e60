"""What of a host a run may use: its inventory's wishes held against what it tells of itself."""

from __future__ import annotations

from dataclasses import replace

import benchfleet
from benchfleet.domain.host import Host
from benchfleet.domain.resource import Device
from benchfleet.engines.base import HostReady
from benchfleet.errors import DeviceError
from benchfleet.machines.facts import Facts, parse_facts
from benchfleet.machines.wheel import environment_name


def examined(host: Host, said: str) -> HostReady:
    """The host's share in a run, from what it said of itself.

    Raises ProtocolError where it said nothing, and DeviceError where it has not what its
    inventory names, or another benchfleet.
    """
    facts = parse_facts(said)
    if facts.environment != environment_name():
        build = "another build of it" if facts.benchfleet == benchfleet.__version__ else "this one"
        raise DeviceError(
            f"it has benchfleet {facts.benchfleet}, here is {benchfleet.__version__} ({build}); "
            "run `benchfleet hosts bootstrap`, or install the same in its Python"
        )
    devices = tuple(replace(device, host=host.name) for device in _devices(host, facts))
    slots = len(devices) * (host.slots_per_device if devices[0].kind == "gpu" else 1)
    return HostReady(
        host=host.name,
        devices=devices,
        slots=slots,
        threads=max(1, facts.cores // slots),
        provenance={
            "benchfleet": facts.benchfleet,
            "python": facts.python,
            "platform": facts.platform,
            "driver": facts.driver,
        },
    )


def _devices(host: Host, facts: Facts) -> list[Device]:
    here = {gpu.index: gpu.device for gpu in facts.gpus}
    if host.gpus is not None:
        if missing := [index for index in host.gpus if index not in here]:
            have = ", ".join(map(str, here)) or f"none ({facts.gpu_problem})"
            raise DeviceError(f"it has no GPU {', '.join(map(str, missing))}; it has {have}")
        return [here[index] for index in host.gpus]
    if here and host.cpu_slots is None:
        return list(here.values())
    count = host.cpu_slots or max(1, facts.cores // 2)
    return [Device(kind="cpu", index=index) for index in range(count)]
