"""The devices of a run by name: those it has, those it could have, and how each stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from benchfleet.domain.resource import Device
from benchfleet.domain.slots import DeviceName, SlotState, name_of
from benchfleet.errors import DeviceError
from benchfleet.runner.resources.devices import Devices
from benchfleet.runner.resources.hosts import Hosts
from benchfleet.runner.resources.slot import Slot


class DeviceNames:
    """Finds the device that somebody names, or says why there is none."""

    def __init__(
        self, devices: Devices, hosts: Hosts, gpus: Callable[[], Sequence[Device]]
    ) -> None:
        self._devices, self._hosts, self._gpus = devices, hosts, gpus
        self.removed: set[Device] = set()

    @property
    def known_devices(self) -> Mapping[DeviceName, Device]:
        """Every device that is or was part of this run."""
        return {name_of(device): device for device in self._devices.known_devices}

    def named(self, name: DeviceName) -> Device:
        """One that is or was part of it. Raises DeviceError."""
        known_devices = self.known_devices
        if name not in known_devices:
            raise DeviceError(f"no {name} in this run; there are {listed(known_devices)}")
        return known_devices[name]

    def to_add(self, name: DeviceName) -> tuple[Device, str]:
        """The device, and what kept it out until now. Raises DeviceError."""
        device = self.known_devices.get(name)
        if device is None:
            return self._new(name), ""
        if device in self.removed:
            return device, "removed"
        if not (why := self._devices.quarantine.why(device)):
            raise DeviceError(f"{name} is part of this run already")
        return device, why

    def _new(self, name: DeviceName) -> Device:
        machine = name.host or "this machine"
        if name.host and self._hosts.is_away(name.host):
            raise DeviceError(f"{name}: {name.host} is away ({self._hosts.why})")
        kinds = {device.kind for device in self._devices.known_devices if device.host == name.host}
        if not kinds:
            hosts = sorted({device.host or "this one" for device in self._devices.known_devices})
            raise DeviceError(
                f"{name}: {machine} takes no part in this run; its machines: {', '.join(hosts)}"
            )
        if name.kind not in kinds:
            other = "its CPU" if name.kind == "gpu" else "its GPUs"
            raise DeviceError(
                f"{name}: {machine} takes part with {other}; a run takes GPUs or slots of the CPU "
                "of a machine, not both"
            )
        if name.kind == "cpu":
            return Device(kind="cpu", index=name.index, host=name.host)
        spare = self._hosts.spare(name.host) if name.host else self._gpus()
        every = {name_of(device): device for device in (*self._of(name.host), *spare)}
        if name not in every:
            raise DeviceError(f"no {name} on {machine}; there are {listed(every)}")
        return every[name]

    def _of(self, host: str) -> Iterator[Device]:
        return (device for device in self._devices.known_devices if device.host == host)

    def states(self, slots: Iterable[Slot], now: float) -> Iterator[SlotState]:
        """Every slot, then every device that has none."""
        in_use: set[Device] = set()
        for slot in slots:
            in_use.update(slot.spec.devices)
            states = slot.display
            yield SlotState(
                devices=states.devices,
                state=f"{states.stage}, then let go" if slot.draining else states.stage,
                slot=slot.id,
                cell=states.cell,
                done=states.done,
                total=states.total,
                seconds=now - states.since if states.cell else None,
            )
        for name, device in sorted(self.known_devices.items()):
            if device not in in_use:
                away = "away" if self._hosts.is_away(name.host) else "free"
                why = "removed" if device in self.removed else self._devices.quarantine.why(device)
                yield SlotState(devices=str(name), state=why or away)


def listed(names: Mapping[DeviceName, Device]) -> str:
    """``cpu:0, lab1/gpu:1``, or ``none``."""
    return ", ".join(map(str, sorted(names))) or "none"
