"""What a run may use of a host: the inventory's entry checked against the host's facts."""

from __future__ import annotations

from dataclasses import replace

import benchfleet
from benchfleet.domain.host import AUTO, Host
from benchfleet.domain.resource import Device
from benchfleet.engines.base import HostReady
from benchfleet.errors import DeviceError
from benchfleet.machines.devices import DEFAULT_CPU_SLOTS, MAX_SLOTS_PER_GPU
from benchfleet.machines.facts import Facts, parse_facts
from benchfleet.machines.wheel import environment_name


def capacity_from_facts(host: Host, text: str) -> HostReady:
    """The host's share in a run, from what it said of itself.

    Raises ProtocolError where it said nothing, and DeviceError where it has another benchfleet,
    or not the devices that its inventory names.
    """
    facts = parse_facts(text)
    if why := version_mismatch(facts):
        raise DeviceError(why)
    return host_capacity(host, facts)


def version_mismatch(facts: Facts) -> str:
    """How its benchfleet differs from this one; ``""`` where it is the very same."""
    if facts.environment == environment_name():
        return ""
    remote = facts.benchfleet
    if remote == benchfleet.__version__:
        remote = f"another build of {remote} ({facts.environment}, this is {environment_name()})"
    else:
        remote = f"benchfleet {remote}, this is {benchfleet.__version__}"
    return (
        f"it has {remote}; install the same there, or have benchfleet bring its own: over SSH "
        "leave 'python' out of the inventory and run `benchfleet hosts bootstrap`, on Ray set "
        "'bootstrap: true' of the engine"
    )


def host_capacity(host: Host, facts: Facts) -> HostReady:
    """What of it a run may use. Raises DeviceError where it lacks what its inventory names,
    cannot tell what it has, or has a folder that takes no files."""
    if facts.folder_problem:
        raise DeviceError(f"{facts.folder_problem}; make room there, or name another 'folder'")
    devices = tuple(replace(device, host=host.name) for device in _devices(host, facts))
    spare = [gpu.device for gpu in facts.gpus if devices[0].kind == "gpu"]
    slots, begin = len(devices), 0
    if devices[0].kind == "gpu":
        slots *= host.slots_per_gpu or MAX_SLOTS_PER_GPU
        begin = 1 if host.slots_per_gpu == AUTO else 0
    elif host.cpu_slots == AUTO:
        begin = min(DEFAULT_CPU_SLOTS, slots)
    return HostReady(
        host=host.name,
        devices=devices,
        slots=slots,
        begin=begin,
        threads=max(1, facts.cores // slots),
        price=host.price,
        spare=tuple(
            device
            for device in (replace(one, host=host.name) for one in spare)
            if device not in devices
        ),
        provenance={
            "benchfleet": facts.benchfleet,
            "python": facts.python,
            "platform": facts.platform,
            "driver": facts.driver,
        },
    )


def _devices(host: Host, facts: Facts) -> list[Device]:
    present = {gpu.index: gpu.device for gpu in facts.gpus}
    if host.gpus is not None:
        if missing := [index for index in host.gpus if index not in present]:
            have = ", ".join(map(str, present)) or f"none ({facts.gpu_problem or facts.no_gpu})"
            raise DeviceError(f"it has no GPU {', '.join(map(str, missing))}; it has {have}")
        return [present[index] for index in host.gpus]
    if facts.gpu_problem and host.cpu_slots is None:
        raise DeviceError(f"{facts.gpu_problem}; fix that, or give it cpu_slots to use its CPU")
    if present and host.cpu_slots is None:
        return list(present.values())
    if host.cpu_slots == AUTO:
        count = max(1, facts.cores)
    else:
        count = host.cpu_slots or max(1, facts.cores // 2)
    return [Device(kind="cpu", index=index) for index in range(count)]
